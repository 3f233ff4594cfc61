import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { startTestService } from '../packages/server/testing/service.ts';
import { runHidden } from './campaign/hidden.ts';
import type { HiddenSystem } from './campaign/hidden-operations.ts';
import { testSeed } from './fixtures/seed.ts';

/** A service in this process; a crash is a restart. The campaign kills processes. */
async function startSystem(): Promise<HiddenSystem> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-hidden-'));
  const file = join(folder, 'service.yaml');
  const start = async (bootstrap: string) => {
    await writeFile(file, bootstrap);
    const env = { SERVICE_PERSIST_BACKEND: 'file', SERVICE_PERSIST_PATH: join(folder, 'server') };
    return startTestService(env, ['--service-config', file]);
  };
  let service = await start('{}');
  return {
    management: () => String(service.addresses.management),
    api: (method, path, body) => service.manage(method, path, body),
    url: (namespace) => service.url(namespace),
    async restart(bootstrap) {
      await service.stop(0);
      service = await start(bootstrap);
    },
    async close() {
      await service.stop(0);
      await rm(folder, { recursive: true });
    },
  };
}

it('entries that are hidden are in no response, whatever operators and upstreams do', async () => {
  const system = await startSystem();
  try {
    const { failures, sightings, hidden, operations, outcomes } = await runHidden(system, 15, testSeed());
    expect(failures).toEqual([]);
    expect(sightings).toBeGreaterThan(operations);
    expect(hidden).toBeGreaterThan(operations);
    expect(outcomes.done).toBeGreaterThan(operations / 2);
  } finally {
    await system.close();
  }
}, 60_000);
