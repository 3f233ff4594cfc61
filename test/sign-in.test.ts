import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { gunzipSync } from 'node:zlib';
import { request } from 'undici';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { type SignInIssuer, signInAt, startSignInIssuer } from './fixtures/sign-in-issuer.ts';

// People sign in to the console at a real token issuer. The clock is that of the tests, for both.

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const KEY = `slk_${randomBytes(32).toString('base64url')}`;
const SCOPES = ['openid', 'email', 'offline_access'];

let folder: string;
let issuer: SignInIssuer;
let service: TestService;

beforeEach(async () => {
  vi.useFakeTimers({ toFake: ['Date'] });
  issuer = await startSignInIssuer();
  issuer.users.set('ann', { groups: ['admins'], email: 'ann@example.com', email_verified: true });
  issuer.users.set('bob', { groups: ['staff'] });
  folder = await mkdtemp(join(tmpdir(), 'sluice-sign-in-'));
  service = await start();
});
afterEach(async () => {
  await service.stop(0);
  issuer.close();
  await rm(folder, { recursive: true });
  vi.useRealTimers();
});

/** Starts the service, again if it has been stopped. */
async function start(env: Readonly<Record<string, string>> = {}): Promise<TestService> {
  const identity = {
    anonymous: 'deny',
    keys: [
      { name: 'key', sha256: [createHash('sha256').update(KEY).digest('hex')], groups: ['admins'], management: true },
    ],
    tokens: [
      {
        name: 'corp',
        issuer: issuer.url,
        groups: ['groups'],
        person: 'email',
        sign_in: { client_id: 'sluice-console', scopes: SCOPES },
      },
    ],
    roles: { admin: ['corp/admins'], viewer: ['corp/staff', 'keys/admins'] },
  };
  const file = join(folder, 'service.yaml');
  await writeFile(file, JSON.stringify({ identity }));
  const variables = {
    SERVICE_PUBLIC_URL: 'http://sluice.test',
    SERVICE_PERSIST_BACKEND: 'file',
    SERVICE_PERSIST_PATH: join(folder, 'data'),
    RUST_LOG: 'trace',
    ...env,
  };
  return await startTestService(variables, ['--service-config', file]);
}

/** Starts the service again. */
async function restart(env?: Readonly<Record<string, string>>): Promise<void> {
  await service.stop(0);
  service = await start(env);
}

interface Sent {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly cookie?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Of a request that a page of the console makes, and of one that the issuer leads a browser to. */
const CONSOLE = { 'sec-fetch-site': 'same-origin' };
const ELSEWHERE = { 'sec-fetch-site': 'cross-site' };

/** A request of a browser. */
async function send(path: string, { method = 'GET', cookie, headers = CONSOLE }: Sent = {}) {
  const url = path.startsWith('http') ? path : service.management + path;
  const sent = { ...headers, ...(cookie !== undefined && { cookie }) };
  const { statusCode: status, headers: received, body } = await request(url, { method, headers: sent, reset: true });
  const text = await body.text();
  const { data, error } = String(received['content-type']).startsWith('application/json') ? JSON.parse(text) : {};
  const cookies = [received['set-cookie'] ?? []].flat();
  return { status, headers: received, location: String(received.location ?? ''), cookies, text, data, error };
}

const pairOf = (cookies: readonly string[], name: string) =>
  cookies.find((each) => each.startsWith(`${name}=`))?.split(';', 1)[0] ?? '';

/** Begins a sign-in. Returns where the issuer leads the browser back to, and the cookie of the browser. */
async function begin(user: string, query = '') {
  const { status, location, cookies } = await send(`/api/v1/session/login${query}`);
  expect(status).toBe(302);
  return { back: await signInAt(issuer, location, user), cookie: pairOf(cookies, 'sluice-login'), location, cookies };
}

const complete = (back: string, cookie?: string) =>
  send(back, { headers: ELSEWHERE, ...(cookie !== undefined && { cookie }) });

/** Signs in. Returns the cookie. */
async function signIn(user: string): Promise<string> {
  const { back, cookie } = await begin(user);
  const { status, location, cookies } = await complete(back, cookie);
  expect([status, location]).toEqual([302, `${service.management}/admin/`]);
  return pairOf(cookies, 'sluice');
}

const changed = (url: string, parameters: Readonly<Record<string, string>>): string => {
  const result = new URL(url);
  for (const [name, value] of Object.entries(parameters)) result.searchParams.set(name, value);
  return result.href;
};

describe('a sign-in', () => {
  it('proves the person to the API, by the groups of the issuer', async () => {
    const cookie = await signIn('ann');
    expect((await send('/api/v1/session', { cookie })).data).toEqual({
      principal: { kind: 'user', id: 'corp/ann', source: 'corp', person: 'ann@example.com', groups: ['corp/admins'] },
      rights: ['read', 'read_bodies', 'change_registry', 'administer'],
      signIn: { expiresAt: new Date(Date.now() + 12 * HOUR).toISOString() },
      offer: {
        issuer: issuer.url,
        clientId: 'sluice-console',
        scopes: SCOPES,
        url: `${service.management}/api/v1/session/login`,
      },
    });
    const viewer = await signIn('bob');
    const statuses = async (path: string) =>
      await Promise.all([cookie, viewer].map(async (each) => (await send(path, { cookie: each })).status));
    expect(await statuses('/api/v1/tools')).toEqual([200, 200]);
    expect(await statuses('/api/v1/sessions')).toEqual([200, 403]);
  });

  it('needs a browser that has begun it', async () => {
    const { back, cookie } = await begin('ann');
    const forged = `${cookie.slice(0, -1)}${cookie.endsWith('A') ? 'B' : 'A'}`;
    for (const wrong of [undefined, 'sluice-login=', forged, `sluice=${cookie.slice(13)}`, 'other=1']) {
      const { status, text, cookies } = await complete(back, wrong);
      expect([status, cookies], String(wrong)).toEqual([400, []]);
      expect(text).toContain('No sign-in has begun in this browser');
    }
    vi.setSystemTime(Date.now() + 10 * MINUTE);
    expect((await complete(back, cookie)).status).toBe(400);
    expect(issuer.requests).toEqual([]);
  });

  it('is not completed with the answer to another one', async () => {
    const first = await begin('bob');
    const second = await begin('ann');
    for (const [back, cookie] of [
      [first.back, second.cookie],
      [second.back, first.cookie],
      [changed(second.back, { state: '' }), second.cookie],
      [changed(second.back, { iss: 'http://evil.example' }), second.cookie],
    ] as const) {
      const { status, text, cookies } = await complete(back, cookie);
      expect([status, cookies]).toEqual([400, []]);
      expect(text).toContain('This belongs to another sign-in');
    }
    expect(issuer.requests).toEqual([]);
    const injected = changed(second.back, { code: new URL(first.back).searchParams.get('code') ?? '' });
    const { status, cookies } = await complete(injected, second.cookie);
    expect([status, pairOf(cookies, 'sluice-login'), pairOf(cookies, 'sluice')]).toEqual([400, 'sluice-login=', '']);
    expect(service.log.join('\n')).toContain('sign-in failed');
  });

  it('is completed once', async () => {
    const { back, cookie } = await begin('ann');
    expect((await complete(back, cookie)).status).toBe(302);
    expect((await complete(back, cookie)).status).toBe(400);
  });

  it('that the person or the issuer has refused is no sign-in', async () => {
    const { back, cookie } = await begin('ann');
    const refused = new URL(back);
    refused.searchParams.delete('code');
    refused.searchParams.set('error', 'access_denied');
    refused.searchParams.set('error_description', '<script>');
    const { status, text, headers } = await complete(refused.href, cookie);
    expect(status).toBe(400);
    expect(text).toContain('did not accept the sign-in');
    expect(text).not.toContain('script');
    expect(headers).toMatchObject({ 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' });
    expect(headers['content-security-policy']).toContain("default-src 'none'");
  });

  it('needs the issuer', async () => {
    const { back, cookie } = await begin('ann');
    issuer.isAvailable = false;
    expect((await complete(back, cookie)).status).toBe(503);
    await restart();
    expect((await send('/api/v1/session/login')).status).toBe(503);
    issuer.isAvailable = true;
    expect((await send('/api/v1/session/login')).status).toBe(302);
  });

  it('leads back to a page of the console only', async () => {
    const page = '/admin/#/tools?namespace=crm&open=x';
    for (const [returnTo, path] of [
      [page, page],
      ['//evil.example/admin/', '/admin/'],
      ['https://evil.example/admin/', '/admin/'],
      ['/admin/../api/v1/session/logout', '/admin/'],
      ['/admin/\\evil', '/admin/'],
      ['/admin/#\r\nSet-Cookie: a=b', '/admin/'],
      [`/admin/#${'x'.repeat(2_000)}`, '/admin/'],
    ] as const) {
      const { back, cookie } = await begin('ann', `?return_to=${encodeURIComponent(returnTo)}`);
      expect((await complete(back, cookie)).location, returnTo).toBe(service.management + path);
    }
  });

  it('sets cookies that scripts and other sites cannot use', async () => {
    const { cookies, cookie, back, location } = await begin('ann');
    expect(cookies).toEqual([`${cookie}; Path=/; HttpOnly; SameSite=Lax; Max-Age=600`]);
    const parameters = new URL(location).searchParams;
    expect(parameters.get('redirect_uri')).toBe(`${service.management}/api/v1/session/callback`);
    expect(parameters.get('code_challenge_method')).toBe('S256');
    const completed = await complete(back, cookie);
    expect(completed.cookies).toEqual([
      expect.stringMatching(/^sluice=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict; Max-Age=43200$/),
      'sluice-login=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0',
    ]);
  });
});

describe('the address of the console', () => {
  const login = (headers: Readonly<Record<string, string>>) => send('/api/v1/session/login', { headers });

  it('may be https, with a path', async () => {
    const console = 'https://console.example/base';
    const host = { host: 'console.example' };
    issuer.close();
    issuer = await startSignInIssuer([`${console}/api/v1/session/callback`]);
    issuer.users.set('ann', { groups: ['admins'] });
    await restart({ SERVICE_CONSOLE_URL: console });
    const begun = await login(host);
    const cookie = pairOf(begun.cookies, '__Host-sluice-login');
    expect(begun.cookies).toEqual([`${cookie}; Path=/; HttpOnly; Secure; SameSite=Lax; Max-Age=600`]);
    const back = await signInAt(issuer, begun.location, 'ann');
    expect(back.startsWith(`${console}/api/v1/session/callback?`)).toBe(true);
    const local = back.replace('https://console.example', service.management);
    const completed = await send(local, { cookie, headers: { ...host, ...ELSEWHERE } });
    expect(completed.location).toBe(`${console}/admin/`);
    const signedIn = pairOf(completed.cookies, '__Host-sluice');
    expect(completed.cookies[0]).toMatch(/; HttpOnly; Secure; SameSite=Strict;/);
    const { data } = await send('/api/v1/session', { cookie: signedIn, headers: { ...host, ...CONSOLE } });
    expect(data).toMatchObject({ principal: { id: 'corp/ann' }, offer: { url: `${console}/api/v1/session/login` } });
    // The name without the prefix could be set over http, and by other hosts of the domain.
    const unsafe = signedIn.replace('__Host-', '');
    expect((await send('/api/v1/tools', { cookie: unsafe })).status).toBe(401);
  });

  it('is needed over http elsewhere than on the machine of the service', async () => {
    const local = new URL(service.management).host;
    const addresses: Readonly<Record<string, string>>[] = [
      { host: local, 'x-forwarded-proto': 'https' },
      { host: local, forwarded: 'for=192.0.2.1' },
      { host: local, 'x-forwarded-for': '192.0.2.1' },
    ];
    for (const headers of addresses) {
      const { status, text } = await login(headers);
      expect([status, text.includes('the address of the console is unknown: set SERVICE_CONSOLE_URL')]).toEqual([
        400,
        true,
      ]);
    }
    await restart({ SERVICE_CONSOLE_URL: 'http://console.example' });
    const { status, text } = await login({ host: 'console.example' });
    expect([status, text.includes('over https only')]).toEqual([400, true]);
    const { data } = await send('/api/v1/session');
    expect(data.offer).toMatchObject({ issuer: issuer.url, reason: expect.stringContaining('over https only') });
    expect(data.offer.url).toBeUndefined();
  });
});

describe('the cookie', () => {
  it('counts for requests of the console itself only', async () => {
    const cookie = await signIn('ann');
    const statusOf = async (headers: Readonly<Record<string, string>>, path = '/api/v1/tools') =>
      (await send(path, { cookie, headers })).status;
    expect(await statusOf(CONSOLE)).toBe(200);
    for (const site of ['cross-site', 'same-site', 'none', 'same-origin, cross-site'])
      expect(await statusOf({ 'sec-fetch-site': site }), site).toBe(401);
    expect(await statusOf({})).toBe(401);
    for (const listener of ['mcp', 'inference'] as const)
      expect(await statusOf(CONSOLE, `http://${service.addresses[listener]}/default/mcp`), listener).not.toBe(200);
    const mcp = `http://${service.addresses.mcp}/default/mcp`;
    expect((await send(mcp, { method: 'POST', cookie })).status).toBe(401);
  });

  it('that proves nothing is no anonymous request', async () => {
    for (const cookie of ['sluice=x', `sluice=${'A'.repeat(43)}`]) {
      const { status, error } = await send('/api/v1/tools', { cookie });
      expect([status, error.message]).toEqual([401, 'the sign-in has ended: sign in again']);
      expect((await send('/api/v1/session', { cookie })).data).toMatchObject({
        principal: { kind: 'anonymous' },
        rights: [],
        rejected: 'the sign-in has ended: sign in again',
      });
    }
    expect((await send('/healthz', { cookie: 'sluice=x' })).status).toBe(200);
  });

  it('does not count beside another credential, and not twice', async () => {
    const cookie = await signIn('ann');
    const idOf = async (headers: Readonly<Record<string, string>>, cookies = cookie) =>
      (await send('/api/v1/session', { cookie: cookies, headers: { ...CONSOLE, ...headers } })).data.principal.id;
    expect(await idOf({ authorization: `Bearer ${KEY}` })).toBe('keys/key');
    expect(await idOf({ authorization: `Bearer ${KEY}x` })).toBe('');
    expect(await idOf({}, `${cookie}; sluice=x`)).toBe('');
    expect(await idOf({}, `theme=dark; ${cookie}; other=1`)).toBe('corp/ann');
  });
});

describe('signing out', () => {
  const signOut = (cookie: string | undefined, headers: Readonly<Record<string, string>> = CONSOLE) =>
    send('/api/v1/session/logout', { method: 'POST', headers, ...(cookie !== undefined && { cookie }) });

  it('ends the sign-in, and revokes the refresh token at the issuer', async () => {
    const cookie = await signIn('ann');
    expect(await issuer.hasRefreshToken()).toBe(true);
    const { data, cookies } = await signOut(cookie);
    expect(data).toEqual({ signedOut: true });
    expect(cookies).toEqual(['sluice=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0']);
    expect((await send('/api/v1/tools', { cookie })).status).toBe(401);
    expect([issuer.requests.at(-1), await issuer.hasRefreshToken()]).toEqual(['revocation', false]);
    expect((await signOut(cookie)).data).toEqual({ signedOut: false });
    expect((await signOut(undefined)).data).toEqual({ signedOut: false });
  });

  it('is not possible from another site', async () => {
    const cookie = await signIn('ann');
    for (const headers of [ELSEWHERE, {}]) expect((await signOut(cookie, headers)).status).toBe(403);
    expect((await send('/api/v1/tools', { cookie })).status).toBe(200);
  });

  it('does not need the issuer', async () => {
    const cookie = await signIn('ann');
    issuer.isAvailable = false;
    expect((await signOut(cookie)).data).toEqual({ signedOut: true });
    expect((await send('/api/v1/tools', { cookie })).status).toBe(401);
  });
});

describe('sign-ins', () => {
  it('that end, or get other groups, end the streams that they have opened', async () => {
    const open = async (cookie: string) => {
      const { body, statusCode } = await request(`${service.management}/api/v1/events?topics=registry`, {
        headers: { cookie, ...CONSOLE },
        reset: true,
      });
      expect(statusCode).toBe(200);
      const ended = body.text().then(
        () => 'ended',
        () => 'ended',
      );
      return () => Promise.race([ended, setImmediate('open')]);
    };
    const [ann, bob] = [await signIn('ann'), await signIn('bob')];
    const [stream, other] = [await open(ann), await open(bob)];
    await send('/api/v1/session/logout', { method: 'POST', cookie: ann });
    await expect.poll(stream).toBe('ended');
    expect(await other()).toBe('open');
    vi.setSystemTime(Date.now() + MINUTE);
    await send('/api/v1/tools', { cookie: bob });
    expect(await other()).toBe('open');
    issuer.users.set('bob', { groups: [] });
    vi.setSystemTime(Date.now() + MINUTE);
    await send('/api/v1/tools', { cookie: bob });
    await expect.poll(other).toBe('ended');
  });

  it('are listed and ended by admins', async () => {
    const [admin, viewer] = [await signIn('ann'), await signIn('bob')];
    const { data, text } = await send('/api/v1/sessions', { cookie: admin });
    expect(data).toHaveLength(2);
    expect(data).toContainEqual({
      id: expect.stringMatching(/^[\w-]{43}$/),
      principal: { kind: 'user', id: 'corp/ann', source: 'corp' },
      person: 'ann@example.com',
      current: true,
      signedInAt: expect.any(String),
      refreshedAt: expect.any(String),
      expiresAt: new Date(Date.now() + 12 * HOUR).toISOString(),
    });
    for (const cookie of [admin, viewer]) expect(text).not.toContain(cookie.slice(7));
    const { id } = data.find(({ current }: { current: boolean }) => !current);
    const remove = (cookie: string) => send(`/api/v1/sessions/${id}`, { method: 'DELETE', cookie });
    expect((await remove(viewer)).status).toBe(403);
    expect((await remove(admin)).data).toEqual({ removed: id });
    expect((await send('/api/v1/tools', { cookie: viewer })).status).toBe(401);
    expect(issuer.requests.at(-1)).toBe('revocation');
    expect((await remove(admin)).error).toMatchObject({ code: 'NOT_FOUND' });
  });

  it('end after 12 hours, however much they are used', async () => {
    const cookie = await signIn('ann');
    for (let hour = 1; hour < 12; hour++) {
      vi.setSystemTime(Date.now() + HOUR);
      expect((await send('/api/v1/tools', { cookie })).status).toBe(200);
    }
    vi.setSystemTime(Date.now() + HOUR);
    expect((await send('/api/v1/tools', { cookie })).status).toBe(401);
    expect((await send('/api/v1/sessions', { cookie: await signIn('ann') })).data).toHaveLength(1);
  });

  it('survive a restart, and are in no backup; neither cookie nor tokens are stored', async () => {
    const cookie = await signIn('ann');
    await restart();
    expect((await send('/api/v1/tools', { cookie })).status).toBe(200);
    const backup = await request(`${service.management}/api/v1/backup`, {
      headers: { cookie, ...CONSOLE },
      reset: true,
    });
    const archive = gunzipSync(Buffer.from(await backup.body.arrayBuffer())).toString('latin1');
    expect(archive).toContain('records.snapshot');
    expect(archive).not.toContain('ann@example.com');
    const data = join(folder, 'data');
    const names = await readdir(data, { recursive: true, withFileTypes: true });
    const files = names.filter((entry) => entry.isFile());
    const texts = await Promise.all(files.map(({ parentPath, name }) => readFile(join(parentPath, name), 'latin1')));
    expect(texts.join()).toContain('ann@example.com');
    for (const secret of [cookie.slice(7), ...issuer.secrets]) expect(texts.join().includes(secret)).toBe(false);
  });
});

describe('a refresh', () => {
  it('makes changed groups count', async () => {
    const cookie = await signIn('ann');
    issuer.users.set('ann', { groups: ['staff'] });
    expect((await send('/api/v1/sessions', { cookie })).status).toBe(200);
    vi.setSystemTime(Date.now() + MINUTE);
    const all = await Promise.all([1, 2, 3].map(() => send('/api/v1/sessions', { cookie })));
    expect(all.map(({ status }) => status)).toEqual([403, 403, 403]);
    expect((await send('/api/v1/tools', { cookie })).status).toBe(200);
    expect(issuer.requests).toEqual(['authorization_code', 'refresh_token']);
  });

  it('that the issuer refuses ends the sign-in', async () => {
    const cookie = await signIn('ann');
    await issuer.revoke('ann');
    vi.setSystemTime(Date.now() + MINUTE);
    const { status, error } = await send('/api/v1/tools', { cookie });
    expect([status, error.message]).toEqual([401, 'the sign-in has ended: sign in again']);
  });

  it('that the issuer does not answer is repeated later', async () => {
    const cookie = await signIn('ann');
    issuer.isAvailable = false;
    vi.setSystemTime(Date.now() + MINUTE);
    expect((await send('/api/v1/tools', { cookie })).status).toBe(200);
    issuer.isAvailable = true;
    issuer.users.set('ann', { groups: [] });
    vi.setSystemTime(Date.now() + MINUTE);
    expect((await send('/api/v1/tools', { cookie })).status).toBe(403);
  });
});

it('a sign-in does not count at another issuer that has the name of its own', async () => {
  const cookie = await signIn('ann');
  issuer.close();
  issuer = await startSignInIssuer();
  await restart();
  expect((await send('/api/v1/tools', { cookie })).status).toBe(401);
});

it('a sign-in leaves no credential in the log', async () => {
  const { back, cookie } = await begin('ann');
  const { cookies } = await complete(back, cookie);
  const signedIn = pairOf(cookies, 'sluice');
  await complete(back, cookie);
  vi.setSystemTime(Date.now() + MINUTE);
  await send('/api/v1/tools', { cookie: signedIn });
  await send('/api/v1/session/logout', { method: 'POST', cookie: signedIn });
  const log = service.log.join('\n');
  expect(log).toContain('/api/v1/session/callback');
  const query = [...new URL(back).searchParams].filter(([name]) => name !== 'iss').map(([, value]) => value);
  for (const secret of [...query, cookie.slice(13), signedIn.slice(7), ...issuer.secrets])
    expect(log.includes(secret), secret).toBe(false);
});

it('a sign-in ends with a block of the person, for good', async () => {
  const [ann, bob] = [await signIn('ann'), await signIn('bob')];
  const path = '/api/v1/blocks/corp%2Fbob';
  expect((await send(path, { method: 'PUT', cookie: ann })).status).toBe(200);
  expect((await send('/api/v1/tools', { cookie: bob })).status).toBe(401);
  const people = async () =>
    (await send('/api/v1/sessions', { cookie: ann })).data.map(
      ({ principal }: { principal: { id: string } }) => principal.id,
    );
  await expect.poll(people).toEqual(['corp/ann']);
  expect((await send(path, { method: 'DELETE', cookie: ann })).status).toBe(200);
  expect((await send('/api/v1/tools', { cookie: bob })).status).toBe(401);
  expect((await send('/api/v1/tools', { cookie: await signIn('bob') })).status).toBe(200);
});
