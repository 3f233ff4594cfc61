import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { legacyClient } from '../../../../test/fixtures/raw-client.ts';
import { toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { startTestService, type TestService } from '../../testing/service.ts';
import { diskFiles, type Files } from '../registry/store/files.ts';

let folder: string;
let upstream: RawUpstream;
let isFull: boolean;
const services: TestService[] = [];
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-full-disk-'));
  upstream = await startRawUpstream({ scripts: { 'tools/list': toolList(toolText('known')) } });
  isFull = false;
});
afterEach(async () => {
  isFull = false;
  for (const service of services.splice(0)) await service.stop(0);
  await upstream.close();
  await rm(folder, { recursive: true, force: true });
});

/** The disk of the test, on which files can be created but have no content while it is full. */
function testDisk(): Files {
  const disk = diskFiles();
  return {
    ...disk,
    async open(path, flags) {
      const file = await disk.open(path, flags);
      return {
        ...file,
        async write(bytes, position) {
          if (isFull) throw Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' });
          await file.write(bytes, position);
        },
      };
    },
  };
}

async function start(argv: readonly string[] = []): Promise<TestService> {
  const env = { SERVICE_PERSIST_BACKEND: 'file', SERVICE_PERSIST_PATH: join(folder, 'registry') };
  const service = await startTestService(env, argv, testDisk());
  services.push(service);
  return service;
}

async function stop(service: TestService): Promise<void> {
  services.splice(services.indexOf(service), 1);
  await service.stop(0);
}

const diskErrors = ({ log }: TestService) => log.filter((line) => line.includes('"disk full: '));

describe('on a full disk the service', () => {
  it('starts, serves what is stored and says so, and stores changes as soon as there is space', async () => {
    const first = await start();
    await first.register('forwards', { name: 'up', address: upstream.url });
    await stop(first);

    isFull = true;
    const service = await start();
    expect(diskErrors(service)[0]).toContain('the registry is served, but cannot be changed until there is space');
    const client = await legacyClient(service.url());
    expect((await client.call('tools/list')).text).toContain('"known"');
    expect((await service.manage('GET', '/forwards')).data).toMatchObject([{ name: 'up' }]);
    expect((await service.manage('POST', '/namespaces', { name: 'later' })).status).toBe(500);
    expect((await service.manage('GET', '/namespaces/later')).status).toBe(404);

    isFull = false;
    await service.register('namespaces', { name: 'later' });
    await stop(service);
    const last = await start();
    expect((await last.manage('GET', '/namespaces/later')).status).toBe(200);
    expect(diskErrors(last)).toEqual([]);
  });

  it('starts without the changes of its bootstrap file', async () => {
    await stop(await start());
    const file = join(folder, 's.yaml');
    await writeFile(file, `namespaces: [new]\nforwards: [{ name: up, address: "${upstream.url}" }]\nevaluators: []\n`);
    isFull = true;
    const service = await start(['--service-config', file]);
    expect((await service.manage('GET', '/forwards')).data).toEqual([]);
    expect(diskErrors(service).join('')).toContain('changes of the bootstrap file are not applied');
  });

  it('starts with an empty folder', async () => {
    isFull = true;
    const service = await start();
    const client = await legacyClient(service.url());
    expect((await client.call('ping')).status).toBe(200);
    expect(diskErrors(service).join('')).toContain('the session key is not stored');
  });

  it('does not start while another process uses the folder', async () => {
    await start();
    isFull = true;
    await expect(start()).rejects.toThrow(/^Sluice already runs at http:\S+ \(process \d+\)/);
  });

  it('does not store changes if another process has written meanwhile', async () => {
    await stop(await start());
    isFull = true;
    const late = await start();
    isFull = false;
    const other = await start();
    await other.register('namespaces', { name: 'theirs' });
    expect((await late.manage('POST', '/namespaces', { name: 'mine' })).status).toBe(500);
    await stop(other);
    expect((await late.manage('POST', '/namespaces', { name: 'mine' })).status).toBe(500);
    expect(late.log.join('')).toMatch(/another process has changed .* since this one has read it; restart it/);
  });
});
