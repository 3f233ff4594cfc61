import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { run } from '../packages/cli/src/run.ts';
import { type Script, scriptedTerminal } from '../packages/cli/src/testing/scripted-terminal.ts';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { type SignInIssuer, signInAt, startSignInIssuer } from './fixtures/sign-in-issuer.ts';

// `sluice auth login` without options: the service names the identity provider.

let folder: string;
let issuer: SignInIssuer;
let service: TestService;

beforeAll(async () => {
  issuer = await startSignInIssuer();
  issuer.users.set('ann', { groups: ['admins'] });
  folder = await mkdtemp(join(tmpdir(), 'sluice-cli-login-'));
  service = await start(['sluice-admin']);
});
afterAll(async () => {
  await service.stop(0);
  issuer.close();
  await rm(folder, { recursive: true });
});
beforeEach(() => rm(join(folder, 'sluice'), { recursive: true, force: true }));

async function start(audiences: readonly string[]): Promise<TestService> {
  const sign_in = { client_id: 'sluice-console', scopes: ['openid', 'email'] };
  const corp = { name: 'corp', issuer: issuer.url, groups: ['groups'], management_audiences: audiences, sign_in };
  const file = join(folder, 'service.yaml');
  await writeFile(
    file,
    JSON.stringify({ identity: { tokens: [corp], roles: { viewer: ['corp/admins'], admin: ['corp/root'] } } }),
  );
  return await startTestService({ SERVICE_PUBLIC_URL: 'http://sluice.test' }, ['--service-config', file]);
}

/** Runs a command; `open` gets the address that it prints. */
async function sluice(argv: readonly string[], open?: (url: string) => Promise<unknown>, host = service.management) {
  const terminal = scriptedTerminal({ env: { XDG_CONFIG_HOME: folder } } satisfies Script);
  const running = run(['--host', host, ...argv], terminal);
  if (open) {
    const url = () => /Open (\S+) in a browser/.exec(terminal.err())?.[1] ?? '';
    await expect.poll(url).not.toBe('');
    await open(url());
  }
  return { code: await running, out: terminal.out(), err: terminal.err() };
}

/** Signs in, and returns to the command. */
const inBrowser = async (url: string) => await fetch(await signInAt(issuer, url, 'ann'));
/** Enters the code that the address has. */
const withCode = (url: string) => signInAt(issuer, url, 'ann');

describe('a login without options', () => {
  it('is one with a code at the identity provider that the service names', async () => {
    const login = await sluice(['auth', 'login'], withCode);
    expect([login.code, login.out]).toEqual([0, `logged in to ${service.management} as corp/ann\n`]);
    expect(login.err).toContain(
      `${service.management} names the identity provider ${issuer.url}, and gets your access token (client sluice-console)\nOpen `,
    );
    expect(await sluice(['namespaces', 'list'])).toMatchObject({ code: 0 });
    const stored = JSON.parse(await readFile(join(folder, 'sluice', 'credentials.json'), 'utf8')).hosts[
      service.management
    ];
    expect(stored).toMatchObject({ issuer: issuer.url, clientId: 'sluice-console', scopes: ['openid', 'email'] });
    const status = await sluice(['auth', 'status', '--output', 'json']);
    expect(JSON.parse(status.out)).toMatchObject({ username: 'corp/ann', issuer: issuer.url, renewable: true });
  });

  it('is one in a browser of this machine on request', async () => {
    const login = await sluice(['auth', 'login', '--browser'], inBrowser);
    expect([login.code, login.out]).toEqual([0, `logged in to ${service.management} as corp/ann\n`]);
  });

  it('is renewed at the same identity provider', async () => {
    await sluice(['auth', 'login', '--browser'], inBrowser);
    const file = join(folder, 'sluice', 'credentials.json');
    const stored = JSON.parse(await readFile(file, 'utf8'));
    stored.hosts[service.management].expiresAt = Date.now();
    await writeFile(file, JSON.stringify(stored));
    expect(await sluice(['namespaces', 'list'])).toMatchObject({ code: 0 });
    expect(issuer.requests.at(-1)).toBe('refresh_token');
    const renewed = JSON.parse(await readFile(file, 'utf8')).hosts[service.management];
    expect(renewed).toMatchObject({ issuer: issuer.url, username: 'corp/ann' });
    expect(renewed.accessToken).not.toBe(stored.hosts[service.management].accessToken);
  });

  it('fails if the service does not accept the token', async () => {
    const other = await start(['elsewhere']);
    const { code, err } = await sluice(['auth', 'login', '--browser'], inBrowser, other.management);
    expect([code, err]).toEqual([1, expect.stringContaining(`does not accept the access token of ${issuer.url}`)]);
    expect(err).toContain('management_audiences');
    await other.stop(0);
  });

  it('needs --auth-server if the service names none', async () => {
    const plain = await startTestService();
    const { code, err } = await sluice(['auth', 'login'], undefined, plain.management);
    expect([code, err]).toEqual([1, expect.stringContaining('--auth-server is required to log in')]);
    await plain.stop(0);
  });
});
