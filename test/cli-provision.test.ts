import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import type { ProvisionRequest__Output } from '../packages/server/src/upstreams/grpc/generated/tool/ProvisionRequest.ts';
import {
  type CapabilityService,
  startCapabilityService,
  unaryHandler,
} from '../packages/server/testing/capability-service.ts';
import { type CommandLine, startCommandLine } from './fixtures/command-line.ts';

const CONFIGURATION = '{"region": "eu"}\n';
const SECRETS = 'hunter2\n';
const PROVISION = ['services', 'provision', 'weather', '--name', 'crm'];

let line: CommandLine;
let service: CapabilityService;
let seen: ProvisionRequest__Output[];
beforeAll(async () => {
  line = await startCommandLine();
  service = await startCapabilityService((server, { provisioner }) =>
    server.addService(provisioner, {
      Provision: unaryHandler((request: ProvisionRequest__Output) => {
        seen.push(request);
        if (request.uri === 'refused:') throw new Error(`cannot read ${request.secret?.payload}`);
        const properties = { region: { type: 'string', description: 'Where', required: true } };
        return { configurationUri: 'config://1', secretUri: 'vault://1', properties };
      }),
    }),
  );
  seen = [];
  await line.text('services', 'add', '-n', 'weather', '--address', service.address, '--type', 'tool-invoker');
  await line.file('crm.json', CONFIGURATION);
  await line.file('crm.key', SECRETS);
});
afterEach(() => {
  seen = [];
});
afterAll(async () => {
  await line.close();
  service.close();
});

it('sends both files to the service unchanged, and prints the response without their contents', async () => {
  const { code, out, err } = await line.sluice([
    ...PROVISION,
    ...['--config', 'crm.json', '--secrets', 'crm.key', '--uri', 'weather://crm', '--verbose'],
  ]);
  expect(code).toBe(0);
  expect(seen).toEqual([
    {
      uri: 'weather://crm',
      configuration: { type: 'BUILTIN', name: 'crm', payload: CONFIGURATION },
      secret: { type: 'BUILTIN', name: 'crm', payload: SECRETS },
    },
  ]);
  expect(out).toMatch(/^configurationUri: config:\/\/1\nsecretUri: +vault:\/\/1\n/);
  expect(err).toMatch(/^POST \/api\/v1\/services\/weather\/provisions 200 \d+ ms\n$/);
  expect(out + err).not.toMatch(/hunter2|"eu"/);
});

it('reads one of them from standard input, but not both', async () => {
  for (const [option, member] of [
    ['--secrets', 'secret'],
    ['--config', 'configuration'],
  ] as const) {
    expect(await line.sluice([...PROVISION, option, '-'], { input: SECRETS })).toMatchObject({ code: 0 });
    expect(seen.pop()).toMatchObject({
      secret: { payload: '' },
      configuration: { payload: '' },
      [member]: { payload: SECRETS },
    });
  }
  const both = await line.sluice([...PROVISION, '--secrets', '-', '--config', '-'], { input: SECRETS });
  expect(both).toMatchObject({
    code: 1,
    out: '',
    err: expect.stringContaining('standard input can be read only once'),
  });
  expect(seen).toEqual([]);
});

it('prints the payload with --output json', async () => {
  expect(await line.json(...PROVISION, '--secrets', 'crm.key', '--type', 'tool-invoker')).toEqual({
    configurationUri: 'config://1',
    secretUri: 'vault://1',
    properties: { region: { type: 'string', description: 'Where', required: true } },
  });
});

it('reports the reason of a failure, without secrets', async () => {
  const rejected = await line.sluice([...PROVISION, '--secrets', 'crm.key', '--uri', 'refused:']);
  expect([seen.length, rejected.code, rejected.out]).toEqual([1, 1, '']);
  expect(rejected.err).toContain(`service weather at ${service.address} failed to provision: status UNKNOWN`);
  expect(rejected.err).not.toContain('hunter2');

  expect(await line.sluice([...PROVISION, '--secrets', 'none.key'])).toMatchObject({
    code: 1,
    err: expect.stringContaining('none.key: no such file'),
  });
  expect(await line.sluice(['services', 'provision', 'none', '--name', 'crm', '--secrets', 'crm.key'])).toMatchObject({
    code: 1,
    err: expect.stringContaining('service not found: none'),
  });
  expect(seen).toHaveLength(1);
});

it('rejects an empty provisioning, which would overwrite the existing secret with an empty one', async () => {
  expect(await line.sluice(PROVISION)).toEqual({
    code: 1,
    out: '',
    err: 'sluice: nothing to provision: use --config, --secrets or both\n',
  });
  expect(seen).toEqual([]);
});
