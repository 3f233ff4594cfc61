import { expect, test } from 'vitest';
import { startApi } from './api.fixture.ts';

const PATH = '/api/v1/config/inference';

test('the given members are changed, and the whole configuration is returned', async (context) => {
  const api = await startApi(context);
  const upstream = '127.0.0.1:11434';
  expect((await api.call('POST', PATH, { capacity: 5 })).data).toEqual({ upstream, capacity: 5 });
  expect(api.interactions.capacity).toBe(5);
  const https = 'https://models.example/v1';
  expect((await api.call('POST', PATH, { upstream: https })).data).toEqual({ upstream: https, capacity: 5 });
  expect(api.inference.upstreamText).toBe(https);
  const both = { upstream: '[::1]:80', capacity: 0 };
  expect((await api.call('POST', PATH, both)).data).toEqual(both);
  // Another notation of the same number.
  expect((await api.call('POST', PATH, '{"capacity":1e3}')).data).toEqual({ upstream: '[::1]:80', capacity: 1_000 });
});

test.for([
  [{}, 'upstream or capacity is required'],
  [{ upstreams: 'h:1' }, 'upstreams is not a known field; known fields: upstream, capacity'],
  [{ capacity: 5, model: 'm' }, 'model is not a known field; known fields: upstream, capacity'],
  [{ capacity: -1 }, 'capacity '],
  [{ capacity: 1_000_001 }, 'capacity '],
  [{ capacity: 1.5 }, 'capacity '],
  [{ capacity: '5' }, 'capacity '],
  [{ capacity: null }, 'capacity '],
  [{ upstream: null, capacity: 5 }, 'upstream '],
  [{ upstream: '', capacity: 5 }, 'upstream "" has no host; expected host:port, http://host'],
  [{ upstream: 'models.example', capacity: 5 }, 'upstream "models.example" has no port; expected host:port'],
  [{ upstream: 'models.8:69' }, 'upstream "models.8:69" has an invalid host; expected host:port'],
  [{ upstream: 'ftp://h:1', capacity: 5 }, 'upstream "ftp://h:1" is not an http or https URL; expected '],
  [{ upstream: 'http://a:secret@h:1' }, 'upstream "http://***@h:1" contains credentials; expected '],
])('%j is rejected with the reason, and changes nothing', async ([body, reason], context) => {
  const api = await startApi(context);
  const answer = await api.call('POST', PATH, body);
  expect(answer.status).toBe(400);
  expect(answer.error).toMatchObject({
    code: 'BAD_REQUEST',
    message: expect.stringMatching(/^invalid inference configuration: /),
    details: [{ path: expect.stringMatching(/^\w+$/) }],
  });
  expect(JSON.stringify(answer.error)).toContain(JSON.stringify(`configuration: ${reason}`).slice(1, -1));
  expect(api.inference).toMatchObject({ upstreamText: '127.0.0.1:11434', capacity: 1_000 });
});
