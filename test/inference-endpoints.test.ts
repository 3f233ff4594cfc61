import { APIError, type default as OpenAI, toFile } from 'openai';
import { beforeAll, beforeEach, expect, test } from 'vitest';
import { bodyHash } from './fixtures/chat/body-hash.ts';
import { type Inference, startInference } from './fixtures/chat/inference.ts';
import { AUDIO } from './fixtures/chat/other-endpoints.ts';
import { expectUntouched } from './fixtures/chat/untouched.ts';
import { type WireFetch, wireFetch } from './fixtures/chat/wire-fetch.ts';

let inference: Inference;
let wire: WireFetch;
let client: OpenAI;
beforeAll(async () => {
  inference = await startInference();
  return () => inference.close();
});
beforeEach(async () => {
  await inference.service.manage('DELETE', '/interactions');
  wire = wireFetch();
  client = inference.client({ fetch: wire.fetch });
});

const FILE = Buffer.concat([AUDIO, Buffer.from('\r\n--boundary\r\n')]);

/** Calls of the client library and their results. */
const CALLS: readonly [string, () => Promise<unknown>, unknown][] = [
  ['the list of models', async () => (await client.models.list()).data.map(({ id }) => id), ['m-1']],
  [
    'embeddings',
    async () => {
      const { data } = await client.embeddings.create({ model: 'm-1', input: ['é', 'b'] });
      return data[0]?.embedding[1];
    },
    Math.fround(Math.sin(1)),
  ],
  [
    'audio',
    async () => {
      const speech = await client.audio.speech.create({ model: 'm-1', voice: 'alloy', input: 'x' });
      return bodyHash(await speech.bytes());
    },
    bodyHash(AUDIO),
  ],
  [
    'an upload in parts',
    async () => (await client.files.create({ file: await toFile(FILE, 'ü.bin'), purpose: 'batch' })).bytes,
    expect.any(Number),
  ],
  ['a deletion', async () => (await client.files.delete('file-1')).deleted, true],
  ['a request with a query', async () => (await client.models.list({ query: { after: 'a b', x: '' } })).data.length, 1],
];

test.for(CALLS)('%s is proxied unchanged and not recorded', async ([, call, expected]) => {
  const before = inference.upstream.requests.length;
  expect(await call()).toEqual(expected);
  expect(inference.upstream.requests).toHaveLength(before + 1);
  expectUntouched(wire.exchanges[0], inference.upstream.requests.at(-1));
  expect(await inference.interactions()).toEqual([]);
});

test('a stream of the responses API is proxied unchanged and recorded', async () => {
  const stream = await client.responses.create({ model: 'm-1', input: 'Wie?', stream: true });
  const events = await Array.fromAsync(stream);
  const text = events.map((event) => (event.type === 'response.output_text.delta' ? event.delta : '')).join('');
  expect(text).toBe('Wasser läuft 💧');
  expectUntouched(wire.exchanges[0], inference.upstream.requests.at(-1));
  const request_body = { model: 'm-1', input: 'Wie?', stream: true };
  expect(await inference.interactions()).toMatchObject([{ completion_id: 'resp_1', request_body }]);
});

test('the upstream receives path and query unchanged', async () => {
  await client.models.list({ query: { after: 'a b', x: '' } });
  expect(inference.upstream.requests.at(-1)).toMatchObject({ method: 'GET', path: '/v1/models?after=a%20b&x=' });
});

test('the upstream rejects unknown paths itself', async () => {
  const failure = await client.get('/no/such').catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(APIError);
  expect(failure).toMatchObject({ status: 404, error: { message: 'no such endpoint: /v1/no/such' } });
  expectUntouched(wire.exchanges[0], inference.upstream.requests.at(-1));
});
