import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { LEGACY, legacyClient, post, type RawResponse, send } from '../../../../test/fixtures/raw-client.ts';
import { errorOf, LIST, listenerTests, rpc } from '../../testing/listener.ts';
import { startTestService } from '../../testing/service.ts';

const service = listenerTests();

describe('a session id', () => {
  const gone = (response: RawResponse) => {
    expect(response.status).toBe(404);
    expect(errorOf(response)).toMatchObject({ code: -32600, id: 1, message: expect.stringContaining('initialize') });
  };
  const use = (session: string, headers: Record<string, string> = {}, url = service().url()) =>
    post(url, LIST, { 'mcp-session-id': session, ...headers });
  const open = async (url = service().url(), headers: Record<string, string> = {}): Promise<string> => {
    const params = { protocolVersion: LEGACY, capabilities: {}, clientInfo: { name: 'c', version: '1' } };
    return String((await post(url, rpc('initialize', params), headers)).headers['mcp-session-id']);
  };

  it('can be resumed repeatedly', async () => {
    const session = await open();
    for (let i = 0; i < 3; i++) expect((await use(session)).status).toBe(200);
  });

  it('is of no use when it is forged or altered', async () => {
    const session = await open();
    const other = (character = '') => (character === 'A' ? 'B' : 'A');
    for (const forged of [
      'x',
      'null',
      session.slice(0, -1),
      `${session}A`,
      session.slice(0, -1) + other(session.at(-1)),
      other(session[0]) + session.slice(1),
    ]) {
      gone(await use(forged));
    }
    gone(await use('x'.repeat(5000)));
    expect((await use(session)).status).toBe(200);
  });

  it('is of no use in another namespace', async () => {
    const session = await open();
    gone(await use(session, {}, service().url('finance')));
    expect((await use(session)).status).toBe(200);
    gone(await use(session, {}, service().url('finance')));
  });

  it('is of no use to another user, or to none', async () => {
    const session = await open(service().url(), { 'x-forwarded-user': 'ann' });
    expect((await use(session, { 'x-forwarded-user': 'ann' })).status).toBe(200);
    gone(await use(session, { 'x-forwarded-user': 'bob' }));
    gone(await use(session));
    gone(await use(await open(), { 'x-forwarded-user': 'ann' }));
  });

  it('may be sent with a new initialize', async () => {
    expect(await open(service().url(), { 'mcp-session-id': 'forgotten' })).toMatch(/^[!-~]{20,}$/);
  });

  it('is invalid after DELETE, and other sessions remain', async () => {
    const [one, two] = [await open(), await open()];
    const ended = await send(service().url(), 'DELETE', { 'mcp-session-id': one });
    expect([ended.status, ended.text]).toEqual([204, '']);
    gone(await use(one));
    expect((await send(service().url(), 'DELETE', { 'mcp-session-id': one })).status).toBe(404);
    expect((await send(service().url(), 'GET', { 'mcp-session-id': one })).status).toBe(404);
    expect((await use(two)).status).toBe(200);
  });

  it('cannot be ended from another namespace or by another user', async () => {
    const session = await open(service().url(), { 'x-forwarded-user': 'ann' });
    const headers = { 'mcp-session-id': session };
    expect((await send(service().url(), 'DELETE', headers)).status).toBe(404);
    expect((await send(service().url('finance'), 'DELETE', { ...headers, 'x-forwarded-user': 'ann' })).status).toBe(
      404,
    );
    expect((await use(session, { 'x-forwarded-user': 'ann' })).status).toBe(200);
  });

  it('is good for every process that has the same SERVICE_SESSION_KEY, and for no other', async () => {
    const key = { SERVICE_SESSION_KEY: 'ab'.repeat(32) };
    const [one, two] = await Promise.all([startTestService(key), startTestService(key)]);
    try {
      const session = await open(one.url());
      expect((await use(session, {}, two.url())).status).toBe(200);
      expect((await use(await open(two.url()), {}, one.url())).status).toBe(200);
      gone(await use(session));
    } finally {
      await Promise.all([one.stop(), two.stop()]);
    }
  });
});

it('DELETE fails when the end of the session cannot be stored', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-ends-'));
  const persistent = await startTestService({ SERVICE_PERSIST_BACKEND: 'file', SERVICE_PERSIST_PATH: folder });
  const opened = await legacyClient(persistent.url());
  await rm(folder, { recursive: true });
  expect((await send(persistent.url(), 'DELETE', opened.headers)).status).toBe(500);
  expect((await opened.call('ping')).status).toBe(200);
  await persistent.stop().catch(() => undefined);
});

it('the user comes from both headers of an authenticating proxy, or the only one present', async () => {
  const open = async (headers: Record<string, string>) => {
    const params = '{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}';
    const opening = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":${params}}`;
    const { headers: responded } = await post(service().url(), opening, headers);
    return String(responded['mcp-session-id']);
  };
  const use = async (session: string, headers: Record<string, string>) =>
    (await post(service().url(), '{"jsonrpc":"2.0","id":1,"method":"ping"}', { 'mcp-session-id': session, ...headers }))
      .status;
  const ann = await open({ 'x-auth-request-user': 'ann' });
  expect(await use(ann, { 'x-auth-request-user': 'ann', 'x-forwarded-user': 'ann' })).toBe(200);
  // A client can send the header that its proxy does not set.
  expect(await use(ann, { 'x-auth-request-user': 'bob', 'x-forwarded-user': 'ann' })).toBe(404);
  expect(await use(ann, { 'x-auth-request-user': 'ann', 'x-forwarded-user': 'bob' })).toBe(404);
});
