import { createServer, type IncomingMessage, request } from 'node:http';
import { connect } from 'node:net';
import OpenAI from 'openai';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type ChatRequest, completionId, completionOf } from './fixtures/chat/completion.ts';
import { type Inference, startInference } from './fixtures/chat/inference.ts';
import { freePort } from './fixtures/free-port.ts';
import { listen, readBody } from './fixtures/http-server.ts';
import { send } from './fixtures/raw-client.ts';

let inference: Inference;
let client: OpenAI;
beforeAll(async () => {
  inference = await startInference();
  client = inference.client();
  return () => inference.close();
});
beforeEach(async () => void (await inference.service.manage('DELETE', '/interactions')));

type Params = ChatRequest & OpenAI.ChatCompletionCreateParamsNonStreaming;
const requestFor = (model: string): Params => ({ model, messages: [{ role: 'user', content: 'Wie?' }], n: 2 });

/** Returns the next recorded interaction. */
async function recorded() {
  await expect.poll(async () => (await inference.interactions()).length).toBe(1);
  return (await inference.interactions())[0];
}

/** Returns the error of a call. */
const failureOf = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => undefined,
    (error: unknown) => error,
  );

/** Returns the contents of a half completion. */
function expectTruncated(body: unknown): void {
  const whole = completionOf(requestFor('m'));
  expect(body).toMatchObject({ id: whole.id, object: 'chat.completion', choices: [{}, {}] });
  const { choices }: { choices: { message: { content: string }; finish_reason: unknown }[] } = Object(body);
  for (const [at, { message, finish_reason }] of choices.entries()) {
    const all = whole.choices[at]?.message.content ?? '';
    expect(message.content.length).toBeGreaterThan(10);
    expect(message.content.length).toBeLessThan(all.length);
    expect(all).toContain(message.content);
    expect(finish_reason).toBeNull();
  }
}

describe('a client that disconnects aborts the upstream request', () => {
  test('during a stream, which is recorded up to that point', async () => {
    const params = requestFor('half');
    const nextRequest = inference.upstream.next();
    const stream = await client.chat.completions.create({ ...params, stream: true });
    let chunks = 0;
    for await (const _ of stream) if (++chunks === 8) break;
    await (await nextRequest).answer.left;
    const interaction = await recorded();
    expect(interaction).toMatchObject({ completion_id: completionId(params), model: 'half', status_code: 200 });
    expectTruncated(interaction?.response_body);
  });

  test('before the first byte of the response', async () => {
    const aborting = new AbortController();
    const nextRequest = inference.upstream.next();
    const failure = failureOf(client.chat.completions.create(requestFor('silent'), { signal: aborting.signal }));
    const served = await nextRequest;
    await expect.poll(() => served.body.bytes).toBeGreaterThan(0);
    aborting.abort();
    await served.answer.left;
    expect(await failure).toBeInstanceOf(OpenAI.APIUserAbortError);
    expect(await recorded()).toMatchObject({ request_body: requestFor('silent'), response_body: null, status_code: 0 });
  });

  test('during the request', async () => {
    const nextRequest = inference.upstream.next();
    const { port, hostname } = new URL(inference.url);
    const socket = connect(Number(port), hostname);
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: ${hostname}:${port}\r\ncontent-length: 9999\r\n\r\n{"messages":[`,
    );
    const served = await nextRequest;
    await expect.poll(() => served.body.bytes).toBe(13);
    socket.destroy();
    await served.answer.left;
    expect(await inference.interactions()).toEqual([]);
  });
});

describe('an upstream that fails', () => {
  test('during a stream aborts that of the client, which is recorded up to that point', async () => {
    const stream = await client.chat.completions.create({ ...requestFor('dying'), stream: true });
    const failure = await failureOf(Array.fromAsync(stream));
    expect(failure).toBeInstanceOf(Error);
    const interaction = await recorded();
    expect(interaction).toMatchObject({ completion_id: completionId(requestFor('dying')), status_code: 200 });
    expectTruncated(interaction?.response_body);
  });

  test('during a response aborts that of the client', async () => {
    expect(await failureOf(client.chat.completions.create(requestFor('dying')))).toBeInstanceOf(Error);
    const { completion_id, response_body } = { ...(await recorded()) };
    expect(completion_id).toBe(completionId(requestFor('dying')));
    const whole = JSON.stringify(completionOf(requestFor('dying')));
    expect(typeof response_body === 'string' && whole.startsWith(response_body)).toBe(true);
  });

  test('before it has received the whole request is reported to the client, and the request is recorded completely', async () => {
    const rejecting = createServer((_, response) => response.writeHead(401, { 'content-length': 2 }).end('no'));
    const rejected = await startInference({ SERVICE_INFERENCE_UPSTREAM: `127.0.0.1:${await listen(rejecting, 0)}` });
    const { hostname, port } = new URL(rejected.url);
    const text = JSON.stringify(requestFor('m'));
    const failure = request({
      hostname,
      port,
      path: '/v1/x',
      method: 'POST',
      headers: { 'content-length': text.length },
    });
    failure.write(text.slice(0, 20));
    const result = await new Promise<IncomingMessage>((resolve) => failure.once('response', resolve));
    expect([result.statusCode, await readBody(result)]).toEqual([401, 'no']);
    failure.end(text.slice(20));
    await expect.poll(() => rejected.interactions()).toHaveLength(1);
    expect((await rejected.interactions())[0]).toMatchObject({
      status_code: 401,
      request_body: requestFor('m'),
      response_body: 'no',
    });
    await rejected.close();
    rejecting.close();
  });

  test('with an error of its API is reported to the client and recorded', async () => {
    const failure = await failureOf(client.chat.completions.create(requestFor('error')));
    expect(failure).toBeInstanceOf(OpenAI.RateLimitError);
    expect(failure).toMatchObject({ status: 429, code: 'rate_limit_exceeded', requestID: 'req_1' });
    expect(await recorded()).toMatchObject({
      status_code: 429,
      request_body: requestFor('error'),
      response_body: { error: { message: 'Rate limit reached' } },
    });
  });
});

describe('an unreachable upstream', () => {
  const BODY = '{"error":{"message":"inference upstream unreachable","type":"bad_gateway"}}';
  let withoutBackend: Inference;
  beforeAll(async () => {
    withoutBackend = await startInference({ SERVICE_INFERENCE_UPSTREAM: `127.0.0.1:${await freePort()}` });
    return () => withoutBackend.close();
  });

  test('causes 502', async () => {
    const response = await send(`${withoutBackend.url}/models`, 'GET');
    expect([response.status, response.headers['content-type'], response.text]).toEqual([502, 'application/json', BODY]);
  });

  test('is an error of the client library, and recorded', async () => {
    const failure = await failureOf(withoutBackend.client().chat.completions.create(requestFor('m')));
    expect(failure).toBeInstanceOf(OpenAI.APIError);
    expect(failure).toMatchObject({
      status: 502,
      type: 'bad_gateway',
      error: { message: 'inference upstream unreachable' },
    });
    await expect.poll(async () => (await withoutBackend.interactions()).length).toBe(1);
    expect((await withoutBackend.interactions())[0]).toMatchObject({
      status_code: 502,
      request_body: requestFor('m'),
      response_body: JSON.parse(BODY),
    });
  });

  test('is logged with the reason', async () => {
    await send(`${withoutBackend.url}/models`, 'GET');
    const lines = withoutBackend.service.log.map((line) => JSON.parse(line));
    expect(lines).toContainEqual(
      expect.objectContaining({
        level: 'warn',
        target: 'service::inference',
        msg: expect.stringMatching(/^cluster inference: upstream http:\/\/127\.0\.0\.1:\d+\/ refused the connection/),
      }),
    );
  });
});
