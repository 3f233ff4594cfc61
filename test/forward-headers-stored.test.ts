import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from './fixtures/raw-upstream.ts';

const KEY = `$\{env:SERVICE_SECRET_KEY}`;

/** Waits for the state of the forward. */
async function stateOf(service: TestService, expected: object): Promise<void> {
  await expect.poll(async () => (await service.manage('GET', '/forwards/up')).data).toMatchObject(expected);
}

it('headers of the bootstrap file are stored as written, and a restart uses the secrets and origins of that time', async ({
  onTestFinished,
}) => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-stored-headers-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const upstream = await startRawUpstream({ scripts: { 'tools/list': toolList(toolText('echo')) } });
  onTestFinished(upstream.close);
  const registry = join(folder, 'registry');
  const config = join(folder, 'service.yaml');
  await writeFile(config, `forwards: [{name: up, address: "${upstream.url}", headers: {x-key: "${KEY}"}}]`);
  const start = (env: Readonly<Record<string, string>>, ...argv: string[]) =>
    startTestService({ SERVICE_PERSIST_BACKEND: 'file', SERVICE_PERSIST_PATH: registry, ...env }, argv);

  const first = await start({ SERVICE_SECRET_KEY: 'value-one' }, '--service-config', config);
  await stateOf(first, { available: true, headers: { 'x-key': KEY } });
  await first.stop();
  const files = await Promise.all((await readdir(registry)).map((entry) => readFile(join(registry, entry), 'utf8')));
  expect(files.join()).toContain(KEY);
  expect(files.join()).not.toContain('value-one');

  const second = await start({ SERVICE_SECRET_KEY: 'value-two' });
  await stateOf(second, { available: true });
  await second.stop();
  expect(new Set(upstream.seen.map(({ headers }) => headers['x-key']))).toEqual(new Set(['value-one', 'value-two']));

  const seen = upstream.seen.length;
  const origins = { SERVICE_SECRET_ORIGINS: 'SERVICE_SECRET_KEY=https://crm.example.com' };
  const third = await start({ SERVICE_SECRET_KEY: 'value-three', ...origins }, '--service-config', config);
  const reason = 'which SERVICE_SECRET_ORIGINS binds to https://crm.example.com and not to http://127.0.0.1';
  await stateOf(third, { available: false, statusMessage: expect.stringContaining(reason), tools_discovered: 1 });
  expect(third.log.join()).toContain('forward of the bootstrap file not applied');
  await third.stop();
  expect(upstream.seen.slice(seen)).toEqual([]);

  await writeFile(config, 'forwards: [{name: up, address: "http://127.0.0.1:9/mcp"}]');
  const fourth = await start({ SERVICE_SECRET_KEY: 'value-four' }, '--service-config', config);
  await stateOf(fourth, { available: true, address: upstream.url });
  expect(fourth.log.join()).toContain('the new address of forward up has another origin: send headers with it');
  await fourth.stop();
});
