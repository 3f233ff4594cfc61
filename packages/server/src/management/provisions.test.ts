import { type Metadata, status } from '@grpc/grpc-js';
import { provisionResult } from '@sluice/contract';
import { expect, type TestContext, test } from 'vitest';
import { StatusError, startCapabilityService, unaryHandler } from '../../testing/capability-service.ts';
import type { ProvisionReply } from '../upstreams/grpc/generated/tool/ProvisionReply.ts';
import type { ProvisionRequest__Output } from '../upstreams/grpc/generated/tool/ProvisionRequest.ts';
import { startApi } from './api.fixture.ts';

const SERVICES = '/api/v1/services';
const PATH = `${SERVICES}/weather/provisions`;
const SECRET = 'hunter2';
const CONFIGURATION = '{"region":"eu"}';
const BODY = { name: 'crm', configuration: CONFIGURATION, secrets: SECRET, uri: 'weather://crm' };

/** An API with the service `weather`, whose provisioning is this function. */
async function provisioning(
  context: Pick<TestContext, 'onTestFinished'>,
  provision: (request: ProvisionRequest__Output, metadata: Metadata) => ProvisionReply,
  serviceType = 'multi-capability',
) {
  const service = await startCapabilityService((server, { provisioner }) =>
    server.addService(provisioner, { Provision: unaryHandler(provision) }),
  );
  context.onTestFinished(() => service.close());
  const api = await startApi(context);
  await api.call('POST', SERVICES, { name: 'weather', serviceType, address: service.address });
  return { api, service };
}

test('name, configuration and secrets are sent unchanged, and the reply of the service is returned', async (context) => {
  const seen: unknown[] = [];
  const { api } = await provisioning(context, (request, metadata) => {
    seen.push(request, metadata.get('x-service-request-id'));
    return {
      configurationUri: 'config://1',
      secretUri: 'vault://1',
      properties: { region: { type: 'string', description: 'Where', required: true }, size: {} },
    };
  });
  const before = api.registry.current;
  const answer = await api.call('POST', PATH, BODY, { 'x-request-id': 'r-1' });
  expect([answer.status, answer.error]).toEqual([200, null]);
  expect(answer.data).toEqual({
    configurationUri: 'config://1',
    secretUri: 'vault://1',
    properties: {
      region: { type: 'string', description: 'Where', required: true },
      size: { type: '', description: '', required: false },
    },
  });
  expect(provisionResult.parse(answer.data)).toEqual(answer.data);
  expect(seen).toEqual([
    {
      uri: 'weather://crm',
      configuration: { type: 'BUILTIN', name: 'crm', payload: CONFIGURATION },
      secret: { type: 'BUILTIN', name: 'crm', payload: SECRET },
    },
    ['r-1'],
  ]);
  expect(api.registry.current).toBe(before);
  expect(api.log.join('')).toContain(`"path":"${PATH}"`);
  expect(api.log.join('')).not.toMatch(/hunter2|region/);
});

test('all members except the name are optional, and an empty reply is returned as empty members', async (context) => {
  const seen: unknown[] = [];
  const { api } = await provisioning(context, (request) => {
    seen.push(request);
    return {};
  });
  const answer = await api.call('POST', PATH, { name: ' crm ' });
  expect(answer).toMatchObject({ status: 200, data: { configurationUri: '', secretUri: '', properties: {} } });
  expect(seen).toEqual([
    {
      uri: '',
      configuration: { type: 'BUILTIN', name: 'crm', payload: '' },
      secret: { type: 'BUILTIN', name: 'crm', payload: '' },
    },
  ]);
});

test('an unknown member is 400 without a call, so that no secret is replaced by an empty one', async (context) => {
  const seen: unknown[] = [];
  const { api } = await provisioning(context, (request) => {
    seen.push(request);
    return {};
  });
  const message = 'is not a known field; known fields: name, configuration, secrets, uri';
  expect(await api.call('POST', PATH, { name: 'crm', secret: SECRET })).toMatchObject({
    status: 400,
    error: { message: `invalid provision: secret ${message}`, details: [{ path: 'secret', message }] },
  });
  expect(seen).toEqual([]);
});

test('of several services with the name, the first registered is called, or that of the type', async (context) => {
  const { api } = await provisioning(context, () => ({ configurationUri: 'first' }), 'resource-provider');
  const second = await startCapabilityService((server, { provisioner }) =>
    server.addService(provisioner, { Provision: unaryHandler(() => ({ configurationUri: 'second' })) }),
  );
  context.onTestFinished(() => second.close());
  await api.call('POST', SERVICES, { name: 'weather', serviceType: 'tool-invoker', address: second.address });
  const asked = async (query: string) => Object((await api.call('POST', PATH + query, BODY)).data).configurationUri;
  expect(await asked('')).toBe('first');
  expect(await asked('?serviceType=resource-provider')).toBe('first');
  expect(await asked('?serviceType=tool-invoker')).toBe('second');
  const none = await api.call('POST', `${PATH}?serviceType=multi-capability`, BODY);
  expect(none).toMatchObject({ status: 404, error: { message: 'service not found: weather' } });
});

test.for([
  [status.INVALID_ARGUMENT, /failed to provision: status INVALID_ARGUMENT; see the log of the service$/],
  [status.UNAVAILABLE, /is not available$/],
  [status.UNIMPLEMENTED, /does not support provisioning \(tool\.Provisioner\/Provision is not implemented\)$/],
  [status.DEADLINE_EXCEEDED, /did not answer in time; it may still have stored them$/],
] as const)(
  'a call that fails with %i is 502, whose message repeats nothing of what the service says',
  async ([code, message], context) => {
    const { api, service } = await provisioning(context, ({ secret, configuration }) => {
      throw new StatusError(code, `cannot read ${secret?.payload} of ${configuration?.payload}`);
    });
    const answer = await api.call('POST', PATH, BODY);
    expect(answer).toMatchObject({ status: 502, data: null, error: { code: 'BAD_GATEWAY' } });
    expect(answer.error).toMatchObject({ message: expect.stringMatching(message) });
    expect(answer.text).toContain(`service weather at ${service.address} `);
    expect(api.log.filter((line) => line.includes('"level":"warn"'))).toEqual([
      expect.stringContaining(`provisioning failed: ${Object(answer.error).message}`),
    ]);
    expect(answer.text + api.log.join('')).not.toMatch(/hunter2|region/);
  },
);

test('an unreachable service is 502 with its name', async (context) => {
  const { api, service } = await provisioning(context, () => ({}));
  service.close();
  const answer = await api.call('POST', PATH, BODY);
  expect([answer.status, answer.error]).toEqual([
    502,
    { code: 'BAD_GATEWAY', message: `service weather at ${service.address} is not available` },
  ]);
});
