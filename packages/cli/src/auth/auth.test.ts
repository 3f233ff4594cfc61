import { once } from 'node:events';
import { chmod, mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { run } from '../run.ts';
import { CLIENT_SECRET, type IdentityProvider, PASSWORD, startIdentityProvider } from '../testing/identity-provider.ts';
import { type Script, scriptedTerminal } from '../testing/scripted-terminal.ts';

// A real identity provider, and a proxy in front of the API that accepts only its tokens. The tokens expire within a
// command's renewal margin, so that each is renewed before it is used.

let identityProvider: IdentityProvider;
let proxy: Server;
let host: string;
beforeAll(async () => {
  identityProvider = await startIdentityProvider(20);
  proxy = createServer(async ({ headers: { authorization = '' } }, response) => {
    const accepted = await identityProvider.accepts(authorization.replace('Bearer ', ''));
    if (!accepted) return response.writeHead(401).end('Unauthorized');
    response.setHeader('content-type', 'application/json');
    return response.end('{"data":{"status":"ok"},"error":null}');
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  const address = proxy.address();
  host = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
});
afterAll(async () => {
  proxy.close();
  proxy.closeAllConnections();
  await identityProvider.close();
});

let home: string;
let file: string;
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'sluice-auth-'));
  file = join(home, 'sluice', 'credentials.json');
});
afterEach(() => rm(home, { recursive: true }));

async function sluice(argv: readonly string[], script: Script = {}) {
  const terminal = scriptedTerminal({ ...script, env: { XDG_CONFIG_HOME: home } });
  const code = await run(['--host', host, ...argv], terminal);
  return { code, out: terminal.out(), err: terminal.err() };
}

const client = () => ['--auth-server', identityProvider.authServer, '--realm', 'sluice', '--client-id', 'cli'];
const logIn = () =>
  sluice(['auth', 'login', '--username', 'alice', '--password', '-', ...client()], { input: `${PASSWORD}\n` });
const stored = async () => JSON.parse(await readFile(file, 'utf8')).hosts[host];
const rejection = () =>
  `sluice: ${host} requires authentication, or rejected the credentials (401): run "sluice auth login --host ${host}"\n`;
const mode = async (path: string) => ((await stat(path)).mode & 0o777).toString(8);

describe('a password login', () => {
  it('is stored in a file for its owner only and authenticates commands at the proxy', async () => {
    expect(await sluice(['health'])).toEqual({ code: 1, out: '', err: rejection() });
    expect(await logIn()).toEqual({ code: 0, out: `logged in to ${host} as alice\n`, err: '' });
    expect([await mode(file), await mode(dirname(file))]).toEqual(['600', '700']);
    expect(await readFile(file, 'utf8')).not.toContain('horse');
    expect(await readdir(dirname(file))).toEqual(['credentials.json']);
    expect(await sluice(['health'])).toEqual({ code: 0, out: 'ok\n', err: '' });
  });

  it('prompts for the password and reuses the other settings', async () => {
    await logIn();
    const secondLogin = await sluice(['auth', 'login'], { answers: [PASSWORD] });
    expect(secondLogin).toMatchObject({ code: 0, err: 'Password for alice: \n' });
    const withoutPassword = await sluice(['auth', 'login'], { answers: [] });
    expect(withoutPassword).toMatchObject({
      code: 1,
      err: 'Password for alice: \nsluice: nothing entered: use --password, or enter the value at the prompt\n',
    });
    expect(await sluice(['auth', 'login'])).toMatchObject({ code: 1, err: expect.stringContaining('use --password') });
  });

  it('sends its client secret to the identity provider only', async () => {
    const secret = ['--client-id', 'backend', '--client-secret', CLIENT_SECRET, '--verbose'];
    const login = ['auth', 'login', '--username', 'alice', '--password', PASSWORD, ...client(), ...secret];
    const { code, out, err } = await sluice(login);
    expect(code).toBe(0);
    expect(err).toMatch(/^POST \/realms\/sluice\/protocol\/openid-connect\/token 200 \d+ ms\n$/);
    expect(await sluice(['health'])).toMatchObject({ code: 0 });
    expect(out + err + (await sluice(['auth', 'status'])).out).not.toMatch(/secret|horse/);
  });

  it('is not combined with other ways to log in', async () => {
    for (const flags of [
      ['--device', '--browser'],
      ['--client-credentials', '--device'],
      ['--browser', '--username', 'alice'],
      ['--device', '--api-token', 'x'],
    ]) {
      expect((await sluice(['auth', 'login', ...flags])).err, flags.join(' ')).toContain('cannot be used');
    }
  });

  it('that is rejected stores nothing and explains why, without the password', async () => {
    const login = ['auth', 'login', '--username', 'alice', '--password', 'wrong-password', ...client()];
    const { code, err } = await sluice(login);
    expect(code).toBe(1);
    expect(err).toMatch(/^sluice: http:\S+\/realms\/sluice\/protocol\/openid-connect\/token rejected the login: .+\n$/);
    expect(err).not.toContain('wrong-password');
    await expect(stat(file)).rejects.toThrow();
  });

  it('reports missing and invalid settings', async () => {
    const login = ['auth', 'login', '--username', 'alice', '--password', 'x'];
    expect((await sluice(login)).err).toBe(
      'sluice: --auth-server is required to log in; use --api-token to store a token instead\n',
    );
    expect((await sluice([...login, ...client(), '--realm', 'other'])).err).toMatch(
      /is not a token endpoint \(status 404\): check --auth-server and --realm/,
    );
    expect((await sluice([...login, ...client(), '--auth-server', 'http://no-such-host.invalid'])).err).toBe(
      'sluice: unknown host: no-such-host.invalid\n',
    );
    expect((await sluice([...login, '--api-token', 'x'])).err).toContain("option '--api-token <token>' cannot be used");
  });
});

describe('a login with an unlimited lifetime', () => {
  it.each(['1e308', '1e13'])('is stored for ten years (%s s)', async (seconds) => {
    const provider = createServer((_request, response) => {
      response.setHeader('content-type', 'application/json');
      response.end(`{"access_token":"a","token_type":"bearer","expires_in":${seconds}}`);
    });
    provider.listen(0, '127.0.0.1');
    await once(provider, 'listening');
    const address = provider.address();
    const authServer = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
    const login = ['auth', 'login', '--username', 'alice', '--password', 'x', ...client(), '--auth-server', authServer];
    const before = Date.now();
    expect(await sluice(login)).toMatchObject({ code: 0, err: '' });
    provider.close();
    const lifetime = (await stored()).expiresAt - before;
    expect(Math.floor(lifetime / (365 * 24 * 3_600_000))).toBe(10);
    expect(await sluice(['auth', 'status'])).toMatchObject({ code: 0, err: '' });
  });
});

describe('an expired login', () => {
  it('is not renewed by completion', async () => {
    await logIn();
    const before = await stored();
    expect(await sluice(['complete', 'zsh', '--', '--host', host, 'tools', 'show', ''])).toEqual({
      code: 0,
      out: '',
      err: '',
    });
    expect(await stored()).toEqual(before);
  });

  it('is renewed, once for all commands that run at the same time', async () => {
    await logIn();
    const before = await stored();
    const results = await Promise.all(Array.from({ length: 4 }, () => sluice(['health'])));
    expect(results.map(({ code, err }) => ({ code, err }))).toEqual(Array(4).fill({ code: 0, err: '' }));
    const after = await stored();
    expect(after.accessToken).not.toBe(before.accessToken);
    expect(after.refreshToken).not.toBe(before.refreshToken);
    expect(identityProvider.grants).toContain('refresh_token');
    expect(await readdir(dirname(file))).toEqual(['credentials.json']);
  });

  it('that cannot be renewed is reported', async () => {
    await logIn();
    const text = await readFile(file, 'utf8');
    await writeFile(file, text.replace(/"refreshToken": "[^"]+"/, '"refreshToken": "revoked"'));
    expect(await sluice(['health'])).toEqual({
      code: 1,
      out: '',
      err: `sluice: the login has expired: run "sluice auth login --host ${host}"\n`,
    });
  });

  it('does not wait for a command that was killed', async () => {
    await logIn();
    await writeFile(`${file}.lock`, '');
    await utimes(`${file}.lock`, 0, 0);
    expect(await sluice(['health'])).toMatchObject({ code: 0 });
  });
});

describe('an API token', () => {
  const TOKEN = 'abcd12345678901234567890123456789012efgh';

  it('is stored, printed masked or unmasked, and deleted', async () => {
    expect(await sluice(['auth', 'login', '--api-token', '-'], { input: `${TOKEN}\n` })).toMatchObject({
      code: 0,
      err: '',
    });
    expect(await sluice(['auth', 'token', '--get'])).toMatchObject({ code: 0, out: 'abcd********efgh\n' });
    expect(await sluice(['auth', 'token', '--get', '--unmask'])).toMatchObject({ code: 0, out: `${TOKEN}\n` });
    expect((await sluice(['auth', 'status'])).out).toMatch(/^loggedIn: true\nkind: {5}token\n/m);
    expect(await sluice(['auth', 'token', '--set', 'x'])).toMatchObject({ code: 0 });
    expect(await sluice(['auth', 'token', '--get'])).toMatchObject({ out: '********\n' });
    expect(await sluice(['auth', 'token', '--clear'])).toMatchObject({
      code: 0,
      out: `removed the token for ${host}\n`,
    });
    expect(await sluice(['auth', 'token', '--get'])).toMatchObject({ code: 1, out: '' });
  });

  it('is not sent to another host', async () => {
    await sluice(['auth', 'token', '--set', TOKEN]);
    const sent: (string | undefined)[] = [];
    const other = createServer(({ headers }, response) => {
      sent.push(headers.authorization);
      response.setHeader('content-type', 'application/json').end('{"data":{"status":"ok"},"error":null}');
    });
    other.listen(0, '127.0.0.1');
    await once(other, 'listening');
    const address = other.address();
    const otherHost = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
    expect(await sluice(['health', '--host', otherHost])).toEqual({ code: 0, out: 'ok\n', err: '' });
    other.close();
    expect(sent).toEqual([undefined]);
    expect(await sluice(['auth', 'logout'])).toMatchObject({ code: 0, out: `logged out of ${host}\n` });
    expect(await sluice(['auth', 'logout'])).toMatchObject({ code: 0, out: `no credentials for ${host}\n` });
    expect(await sluice(['auth', 'status', '--output', 'json'])).toEqual({
      code: 1,
      out: `${JSON.stringify({ host, loggedIn: false, file }, null, 2)}\n`,
      err: '',
    });
  });

  it('that the proxy rejects causes a hint to log in', async () => {
    await sluice(['auth', 'token', '--set', TOKEN]);
    expect(await sluice(['health'])).toEqual({ code: 1, out: '', err: rejection() });
  });
});

it('nothing is sent with --no-auth, although credentials are stored', async () => {
  await logIn();
  const grants = identityProvider.grants.length;
  expect(await sluice(['health', '--no-auth'])).toEqual({ code: 1, out: '', err: rejection() });
  expect(identityProvider.grants).toHaveLength(grants);
  expect(await sluice(['health'])).toMatchObject({ code: 0 });
});

describe('the credentials file', () => {
  it('is rejected when others can read it', async () => {
    await sluice(['auth', 'token', '--set', 'abc']);
    await chmod(file, 0o644);
    const { code, err } = await sluice(['health']);
    expect(code).toBe(1);
    expect(err).toBe(`sluice: ${file}: readable by others (mode 0644): run "chmod 600 ${file}" and log in again\n`);
  });

  it('is rejected when corrupt, without its content', async () => {
    await sluice(['auth', 'token', '--set', 'abc']);
    await writeFile(file, '{"version":1,"hosts":["abc"]}');
    const { code, err } = await sluice(['health']);
    expect(code).toBe(1);
    expect(err).toBe(`sluice: ${file}: corrupt, or of another version: delete the file and log in again\n`);
  });

  it('is usable although the entry of another host is corrupt', async () => {
    await logIn();
    const { hosts } = JSON.parse(await readFile(file, 'utf8'));
    const damaged = { ...hosts[host], expiresAt: null };
    await writeFile(file, JSON.stringify({ version: 1, hosts: { ...hosts, 'http://other.invalid': damaged } }));
    expect(await sluice(['health'])).toEqual({ code: 0, out: 'ok\n', err: '' });
    expect(JSON.parse(await readFile(file, 'utf8')).hosts['http://other.invalid']).toEqual(damaged);
    const otherHost = await sluice(['health', '--host', 'http://other.invalid']);
    expect(otherHost.err).toMatch(
      /^warning: \S+: the credentials stored for http:\/\/other.invalid are corrupt: log in again\nsluice: unknown host: other\.invalid\n$/,
    );
    expect((await sluice(['auth', 'logout', '--host', 'http://other.invalid'])).out).toBe(
      'logged out of http://other.invalid\n',
    );
    expect(Object.keys(JSON.parse(await readFile(file, 'utf8')).hosts)).toEqual([host]);
  });
});

describe('a login of a client', () => {
  const client = () => ['--auth-server', identityProvider.authServer, '--realm', 'sluice', '--client-id', 'backend'];
  const logInAsClient = (secret: string) =>
    sluice(['auth', 'login', '--client-credentials', '--client-secret', '-', ...client()], { input: `${secret}\n` });

  it('authenticates commands, and is renewed with its secret', async () => {
    expect(await logInAsClient(CLIENT_SECRET)).toEqual({ code: 0, out: `logged in to ${host} as backend\n`, err: '' });
    expect(await sluice(['health'])).toEqual({ code: 0, out: 'ok\n', err: '' });
    expect(JSON.parse((await sluice(['auth', 'status', '-o', 'json'])).out)).toMatchObject({ renewable: true });
    const content = JSON.parse(await readFile(file, 'utf8'));
    const { accessToken } = content.hosts[host];
    content.hosts[host].expiresAt = 1;
    await writeFile(file, JSON.stringify(content));
    expect(await sluice(['health'])).toEqual({ code: 0, out: 'ok\n', err: '' });
    expect((await stored()).accessToken).not.toBe(accessToken);
  });

  it('with a wrong secret stores nothing, and does not print it', async () => {
    const { code, err } = await logInAsClient('wrong-secret');
    expect([code, err]).toEqual([1, expect.stringContaining('rejected the login')]);
    expect(err).not.toContain('wrong-secret');
    await expect(stat(file)).rejects.toThrow();
  });
});
