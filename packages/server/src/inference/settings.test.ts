import { expect, test } from 'vitest';
import { type HttpUpstream, httpUpstream } from '../http/address.ts';
import { InteractionStore } from './interaction-store.ts';
import { InferenceSettings } from './settings.ts';

function settings(upstream = '127.0.0.1:11434') {
  const store = new InteractionStore(1_000);
  const upstreams: HttpUpstream[] = [];
  const onUpstream = (set: HttpUpstream) => upstreams.push(set);
  return { store, upstreams, settings: new InferenceSettings(httpUpstream.parse(upstream), store, onUpstream) };
}

test.for([
  ['127.0.0.1:11434', '127.0.0.1:11434'],
  ['http://[::1]', '[::1]:80'],
  ['http://models/v1/', 'http://models:80/v1'],
  ['https://models', 'https://models:443'],
] as const)('the upstream %s is formatted as %s, which parses to the same', ([given, wanted]) => {
  const { upstreamText } = settings(given).settings;
  expect(upstreamText).toBe(wanted);
  expect(httpUpstream.parse(upstreamText)).toEqual(httpUpstream.parse(given));
});

test('a change applies at once, reports the upstream and leaves other settings unchanged', () => {
  const { store, upstreams, settings: current } = settings();
  current.set({ upstream: 'https://models.example/v1' });
  expect(current).toMatchObject({ upstreamText: 'https://models.example/v1', capacity: 1_000 });
  current.set({ capacity: 5 });
  expect([current.capacity, store.capacity, current.upstreamText]).toEqual([5, 5, 'https://models.example/v1']);
  expect(upstreams).toEqual([{ scheme: 'https', host: 'models.example', port: 443, path: '/v1' }]);
});

test('an invalid upstream changes nothing', () => {
  const { upstreams, settings: current } = settings();
  expect(() => current.set({ upstream: 'models.example', capacity: 5 })).toThrow('has no port');
  expect(current).toMatchObject({ upstreamText: '127.0.0.1:11434', capacity: 1_000 });
  expect(upstreams).toEqual([]);
});
