import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ServiceInput } from '@sluice/contract';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { commit } from './fixtures/commit.ts';
import { removeNamespace } from './fixtures/operations.ts';
import { createNamespace, findServices, registerService, removeServices } from './operations-topology.ts';
import { Registry } from './registry.ts';
import { serviceBody } from './serialize.ts';
import { openRegistryLog } from './store/fixtures/registry-log.ts';
import { memoryLog } from './store/record-log.ts';

const CALC: ServiceInput = { name: 'calc', host: 'calc.test', port: 50_051, serviceType: 'tool-invoker' };
const PYTHON: ServiceInput = {
  ...CALC,
  serviceType: 'code-execution-engine',
  serviceSubType: 'sandbox',
  languageName: 'python',
};

function register(registry: Registry, input: ServiceInput) {
  return commit(registry, (draft) => registerService(draft, input));
}

/** Name, port and place of all services. */
function listed({ current }: Registry): unknown[] {
  return current.services.all.map(({ name, port, registrationId: source }) => [name, port, source]);
}

describe('registering a service', () => {
  test('registers one per name, type, engine and language', async () => {
    const registry = new Registry(memoryLog());
    const inputs: ServiceInput[] = [
      CALC,
      PYTHON,
      { ...PYTHON, languageName: 'node' },
      { ...PYTHON, serviceSubType: 'vm' },
      { ...PYTHON, serviceSubType: undefined },
      // The two are distinct.
      { ...PYTHON, languageName: undefined },
      { ...PYTHON, serviceSubType: undefined, languageName: 'sandbox' },
      { ...CALC, name: 'calc","tool-invoker' },
    ];
    for (const input of inputs) expect(await register(registry, input)).toMatchObject({ created: true });
    expect(registry.current.services.all).toHaveLength(inputs.length);
    for (const input of inputs)
      expect(await register(registry, { ...input, port: 2 })).toMatchObject({ created: false });
    expect(registry.current.services.all.map(({ port }) => port)).toEqual(inputs.map(() => 2));
  });

  test('again replaces everything but its position', async () => {
    const registry = new Registry(memoryLog());
    await register(registry, { ...CALC, id: 'i', labels: { a: '1' } });
    await register(registry, PYTHON);
    const { entry } = await register(registry, { ...CALC, host: '::1', port: 2 });
    expect(findServices(registry.current, 'calc')[0]).toBe(entry);
    expect(serviceBody(entry, 'pending')).toEqual({
      name: 'calc',
      host: '::1',
      port: 2,
      address: '[::1]:2',
      serviceType: 'tool-invoker',
      labels: {},
      health: 'pending',
    });
    expect(listed(registry)).toEqual([
      ['calc', 2, 1],
      ['calc', 50_051, 2],
    ]);
  });
});

test('services of a name are found in order of registration, also by type', async () => {
  const registry = new Registry(memoryLog());
  for (const input of [PYTHON, { ...CALC, name: 'other' }, CALC, { ...PYTHON, languageName: 'node' }]) {
    await register(registry, input);
  }
  const found = (type?: string) =>
    findServices(registry.current, 'calc', type).map((entry) => entry.languageName ?? entry.serviceType);
  expect(found()).toEqual(['python', 'tool-invoker', 'node']);
  expect(found('code-execution-engine')).toEqual(['python', 'node']);
  const unknown = { code: 'NOT_FOUND', message: 'service not found: calc' };
  expect(() => found('resource-provider')).toThrow(expect.objectContaining(unknown));
  expect(() => findServices(registry.current, 'nobody')).toThrow('service not found: nobody');
});

test('services are removed by name, and by name and type', async () => {
  const registry = new Registry(memoryLog());
  for (const input of [CALC, PYTHON, { ...PYTHON, languageName: 'node' }, { ...CALC, name: 'other' }]) {
    await register(registry, input);
  }
  const remove = (name: string, type?: string) => commit(registry, (draft) => removeServices(draft, name, type));
  await expect(remove('calc', 'resource-provider')).rejects.toMatchObject({
    code: 'NOT_FOUND',
    message: 'service not found: calc',
  });
  expect(await remove('calc', 'code-execution-engine')).toBe(2);
  expect(listed(registry)).toEqual([
    ['calc', 50_051, 1],
    ['other', 50_051, 4],
  ]);
  expect(await remove('calc')).toBe(1);
  await expect(remove('calc')).rejects.toMatchObject({ code: 'NOT_FOUND', message: 'service not found: calc' });
  // A newly registered service comes last.
  await register(registry, CALC);
  expect(listed(registry)).toEqual([
    ['other', 50_051, 4],
    ['calc', 50_051, 5],
  ]);
});

test('a deleted namespace leaves services in place, and a namespace with nothing else is empty', async () => {
  const registry = new Registry(memoryLog());
  await register(registry, CALC);
  await commit(registry, (draft) => createNamespace(draft, 'ops', {}));
  await commit(registry, (draft) => removeNamespace(draft, 'ops', false));
  expect(listed(registry)).toEqual([['calc', 50_051, 1]]);
});

describe('on disk', () => {
  let folder: string;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'sluice-services-'));
  });
  afterEach(() => rm(folder, { recursive: true }));

  /** A registry of the folder, and the records that it could not use. */
  async function start() {
    const log = await openRegistryLog({ folder });
    const registry = new Registry(log);
    return { log, registry, problems: await registry.load() };
  }

  test("services survive a restart at their positions, and the file has the API's form", async () => {
    const { registry, log } = await start();
    for (const input of [CALC, PYTHON, { ...CALC, name: 'gone' }]) await register(registry, input);
    await register(registry, { ...CALC, host: '::1', labels: { team: 'ops' }, id: 'i' });
    await commit(registry, (draft) => removeServices(draft, 'gone'));
    const before = registry.current.services.all;
    await log.close();

    const { services } = JSON.parse(await readFile(join(folder, 'registry.json'), 'utf8'));
    expect(services).toEqual([
      {
        name: 'calc',
        host: '::1',
        port: 50_051,
        address: '[::1]:50051',
        serviceType: 'tool-invoker',
        labels: { team: 'ops' },
        id: 'i',
        source: 1,
      },
      { ...PYTHON, address: 'calc.test:50051', labels: {}, source: 2 },
    ]);

    const again = await start();
    expect(again.problems).toEqual([]);
    expect(again.registry.current.services.all).toEqual(before);
    // Numbering continues after the highest stored number.
    await register(again.registry, { ...CALC, name: 'next' });
    expect(listed(again.registry).at(-1)).toEqual(['next', 50_051, 3]);
    await again.log.close();
  });
});
