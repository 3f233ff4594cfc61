import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, expect, test } from 'vitest';
import { type H2cListeners, PING, startH2cListeners } from './fixtures/h2c-listeners.ts';

const run = promisify(execFile);

let listeners: H2cListeners;
beforeAll(async () => {
  listeners = await startH2cListeners();
  return () => listeners.close();
});

/** Whether a program is present. */
async function hasProgram(name: string, argument: string): Promise<boolean> {
  return run(name, [argument]).then(
    () => true,
    () => false,
  );
}

test.skipIf(!(await hasProgram('java', '--version')))(
  'the HttpClient of the JDK reaches every listener',
  async () => {
    const urls = Object.values(listeners.urls);
    const source = join(import.meta.dirname, 'fixtures/OfferH2c.java');
    const { stdout } = await run('java', [source, ...urls], { env: { ...process.env, BODY: PING } });
    expect(stdout.trim().split('\n')).toEqual(urls.map(() => '200 HTTP_1_1'));
  },
  120_000,
);

test.skipIf(!(await hasProgram('curl', '--version')))('curl with --http2 reaches every listener', async () => {
  for (const url of Object.values(listeners.urls)) {
    const headers = ['Content-Type: application/json', 'Accept: application/json, text/event-stream'];
    const options = ['--http2', '--silent', '--output', '-', '--write-out', '\n%{http_code} %{http_version}'];
    const { stdout } = await run('curl', [...options, ...headers.flatMap((line) => ['-H', line]), '-d', PING, url]);
    expect(stdout.split('\n').at(-1)).toBe('200 1.1');
  }
});
