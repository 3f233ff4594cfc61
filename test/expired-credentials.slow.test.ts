import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createSigner, keySet, type Signer, sign } from '../packages/server/src/identity/signed-tokens.fixture.ts';
import { LISTEN_HEADERS, listenText } from '../packages/server/testing/listening-client.ts';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { ResponseReader, sessionClient } from '../packages/server/testing/session-client.ts';
import { post } from './fixtures/raw-client.ts';
import { toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from './fixtures/raw-upstream.ts';

// What a token has opened when it expires: streams end, calls finish.

const PUBLIC_URL = 'https://agents.example.com';
const ISSUER = 'https://id.example.com';
const MANAGEMENT = 'https://admin.example.com';
/** Tokens are accepted for so long after their time. */
const LEEWAY_S = 60;
/** Time in which the streams can be opened. */
const OPENING_S = 4;

let folder: string;
let signer: Signer;
let upstream: RawUpstream;
let service: TestService;

beforeAll(async () => {
  signer = await createSigner();
  upstream = await startRawUpstream({ scripts: { 'tools/list': toolList(toolText('work')) } });
  folder = await mkdtemp(join(tmpdir(), 'sluice-expired-'));
  const file = join(folder, 'service.yaml');
  const issuer = { name: 'corp', issuer: ISSUER, jwks_url: keySet(signer), management_audiences: [MANAGEMENT] };
  const identity = { anonymous: 'deny', tokens: [issuer] };
  await writeFile(file, JSON.stringify({ identity, forwards: [{ name: 'up', address: upstream.url }] }));
  service = await startTestService({ SERVICE_PUBLIC_URL: PUBLIC_URL }, ['--service-config', file]);
});
afterAll(async () => {
  await service?.stop(0);
  await upstream?.close();
  await rm(folder, { recursive: true, force: true });
});

/** Headers with a token that is not accepted any more after so many seconds. */
async function token(seconds: number) {
  const now = Math.floor(Date.now() / 1_000);
  const aud = [`${PUBLIC_URL}/default/mcp`, MANAGEMENT];
  const claims = { iss: ISSUER, sub: 'ann', aud, iat: now - LEEWAY_S, exp: now + seconds - LEEWAY_S };
  return { authorization: `Bearer ${await sign(signer, claims)}` };
}

it('streams end when the token that has opened or resumed them expires, and calls finish', async () => {
  await expect.poll(() => upstream.count('tools/list')).toBeGreaterThan(0);
  const finish = Promise.withResolvers<void>();
  upstream.scripts['tools/call'] = { kind: 'result', text: '{"content":[]}', until: finish.promise };
  const lasting = await token(3_600);
  const short = await token(OPENING_S);
  const session = await sessionClient(service.url(), {}, lasting);
  const statusOf = async (reader: ResponseReader) => (await reader.head).statusCode;

  const call = session.call('1', '', short);
  const interrupted = session.listen(undefined, lasting);
  await expect.poll(() => interrupted.lastId).not.toBe('');
  interrupted.disconnect();
  const ending = {
    resumed: session.listen(interrupted.lastId, short),
    notifications: session.listen(undefined, short),
    subscription: new ResponseReader(
      service.url(),
      'POST',
      { ...LISTEN_HEADERS, ...short },
      listenText({ toolsListChanged: true }),
    ),
    events: new ResponseReader(`${service.management}/api/v1/events`, 'GET', short),
    logs: new ResponseReader(`${service.management}/api/v1/logs/notifications`, 'GET', short),
  };
  for (const stream of Object.values(ending)) expect(await statusOf(stream)).toBe(200);
  const other = session.listen(undefined, lasting);
  expect(await statusOf(other)).toBe(200);
  expect(await Promise.all(Object.values(ending).map(({ ended }) => ended))).toEqual([true, true, true, true, true]);
  expect(ending.subscription.text).toContain('"result"');

  expect((await post(service.url(), '{"jsonrpc":"2.0","id":2,"method":"ping"}', short)).status).toBe(401);
  expect(await statusOf(session.listen(ending.notifications.lastId, short))).toBe(401);
  finish.resolve();
  expect(await statusOf(call)).toBe(200);
  expect(await call.ended).toBe(true);
  expect(call.text).toContain('"result"');

  // Nothing is lost: the stream continues with another token.
  const resumed = session.listen(ending.notifications.lastId, lasting);
  expect(await statusOf(resumed)).toBe(200);
  expect((await session.post('{"jsonrpc":"2.0","id":3,"method":"ping"}')).status).toBe(200);
  for (const reader of [other, resumed]) reader.disconnect();
});
