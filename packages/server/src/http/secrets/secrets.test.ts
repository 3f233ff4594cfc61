import { mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { DEFAULT_LOG_FILTER } from '../../app/config/environment.ts';
import { createLogger } from '../../telemetry/log.ts';
import { SecretHeaders } from './secret-headers.ts';
import { Secrets } from './secrets.ts';

const ORIGIN = 'https://crm.example';

function env(name: string): string {
  return `$\{env:${name}}`;
}

function file(name: string): string {
  return `$\{file:${name}}`;
}

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-secrets-'));
});
afterEach(async () => {
  vi.useRealTimers();
  await rm(folder, { recursive: true });
});

function secretsWith(variables: Readonly<Record<string, string>> = {}): Secrets {
  return new Secrets({ env: variables, folder, origins: new Map() });
}

/** Resolves a reference to a file with this content. */
async function resolved(content: string) {
  await writeFile(join(folder, 'secret'), content, 'latin1');
  return secretsWith().resolve(file('secret'), ORIGIN);
}

describe('a reference', () => {
  it.each([
    ['a', 'a'],
    ['a b\n', 'a b'],
    ['a\r\n', 'a'],
    ['x'.repeat(8_192), 'x'.repeat(8_192)],
    [`${'x'.repeat(8_192)}\r\n`, 'x'.repeat(8_192)],
  ])('to a file with %j is its value without a line break at the end', async (content, text) => {
    expect(await resolved(content)).toMatchObject({ text, secrets: [text] });
  });

  it.each([
    ['a\n\n', 'has several lines'],
    ['a\rb', 'has several lines'],
    [' a', 'is not printable ASCII without spaces at its ends'],
    ['a\0b', 'is not printable ASCII'],
    ['é', 'is not printable ASCII'],
    ['\n', 'is empty'],
    ['x'.repeat(8_193), 'has more than 8192 bytes'],
    ['x'.repeat(9_000), 'has more than 8192 bytes'],
  ])('to a file with %j is unusable, without the value in the reason', async (content, reason) => {
    expect(await resolved(content)).toEqual({
      problem: expect.stringContaining(`refers to ${file('secret')}, which ${reason}`),
    });
  });

  it('is replaced in its text; other text stays as it is', async () => {
    await writeFile(join(folder, 'b'), 'two\n');
    const secrets = secretsWith({ A: 'one', LONG: 'x'.repeat(8_000) });
    expect(secrets.resolve(`${env('A')}:${env('A')} $x`, ORIGIN)).toMatchObject({ text: 'one:one $x' });
    expect(await secrets.resolve(`a ${file('b')}${env('A')}`, ORIGIN)).toMatchObject({ text: 'a twoone' });
    expect(secrets.resolve('$A', ORIGIN)).toMatchObject({ text: '$A', secrets: [] });
    expect(secrets.resolve(env('LONG') + env('LONG'), ORIGIN)).toEqual({ problem: expect.stringContaining('8192') });
  });

  it('to a file is read at most once a second, and follows links that are replaced', async () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    const secrets = secretsWith();
    const read = async () => secrets.resolve(file('token'), ORIGIN);
    await writeFile(join(folder, 'v1'), 'one');
    await writeFile(join(folder, 'v2'), 'two');
    await symlink('v1', join(folder, 'token'));
    expect(await read()).toMatchObject({ text: 'one' });
    await symlink('v2', join(folder, 'next'));
    await rename(join(folder, 'next'), join(folder, 'token'));
    vi.advanceTimersByTime(999);
    expect(await read()).toMatchObject({ text: 'one' });
    vi.advanceTimersByTime(1);
    expect(await read()).toMatchObject({ text: 'two' });
  });
});

describe('the headers of an upstream', () => {
  const lines: string[] = [];
  const log = createLogger(DEFAULT_LOG_FILTER, (line) => lines.push(line)).target('service::forward');

  it('without files are resolved once and at once', () => {
    const headers = new SecretHeaders(
      { a: env('A'), 'user-agent': 'x' },
      [ORIGIN],
      secretsWith({ A: 'a-secret' }),
      log,
    );
    const block = headers.current();
    expect(block).toEqual({ lines: ['a', 'a-secret', 'user-agent', 'x'] });
    expect(headers.current()).toBe(block);
    expect(headers.search?.redact('my a-secret')).toBe('my [REDACTED]');
  });

  it('with files are read once for requests at the same time', async () => {
    await writeFile(join(folder, 'token'), 'a-secret');
    const headers = new SecretHeaders({ a: file('token') }, [ORIGIN], secretsWith(), log);
    const first = headers.current();
    expect(headers.current()).toBe(first);
    expect(await first).toEqual({ lines: ['a', 'a-secret'] });
    expect(headers.current()).toBe(await first);
  });

  it('do not redact short values, of which a warning names the references', () => {
    const headers = new SecretHeaders(
      { a: env('A'), b: env('B') },
      [ORIGIN],
      secretsWith({ A: '\\\\\\\\12345', B: 'v1' }),
      log,
    );
    headers.current();
    expect(headers.search).toBeUndefined();
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      { msg: 'secret too short to be redacted', references: [env('A'), env('B')] },
    ]);
  });
});
