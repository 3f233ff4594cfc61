import { toolCallEvent } from '@sluice/contract';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { startTestService } from '../packages/server/testing/service.ts';
import { type Gateway, startGateway } from './fixtures/gateway.ts';
import { findPython, type PythonCapability, startPythonCapability } from './fixtures/python-capability.ts';
import { legacyClient, modernClient, reply } from './fixtures/raw-client.ts';
import { connect, type SdkClient } from './fixtures/sdk-client.ts';

// Tools and resources of a capability service in Python, which reports by field number what it received.

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
/** Long enough for a call to reach the service. */
const TIMEOUT_MS = 2_000;
const SCHEMA = {
  type: 'object',
  properties: {
    service_body: { type: 'string' },
    defined: { type: 'string', target: 'header', scope: 'service', value: 'as defined' },
    overruled: { type: 'string', target: 'header', scope: 'service', value: 'as defined' },
    given: { type: 'string', target: 'header', scope: 'service', value: 'as defined' },
  },
  required: ['größe'],
};
const ARGUMENTS = {
  größe: '10 m² 📏',
  'familie 👨‍👩‍👧': { kinder: ['Zoë', null, 2.5], '': false },
  zahl: 12345678901234567890n,
  nichts: null,
  leer: '',
  given: 'as given',
  service_body: 'Zeile 1\nZeile 2 🧵',
  service_meta_defined: 'lost',
  service_meta_own: 'kept',
  service_auth_overruled: 'credential-7f3a',
};
/** The arguments as text: a number beyond JavaScript's precision is sent with its exact text. */
const ARGUMENTS_TEXT = JSON.stringify(ARGUMENTS, (_, value) =>
  typeof value === 'bigint' ? JSON.rawJSON(String(value)) : value,
);
const TOOLS = { received: SCHEMA, refused: {}, silent: {}, 'status/NOT_FOUND': {}, 'status/FAILED_PRECONDITION': {} };

const python = await findPython();

describe.runIf(python !== undefined)('a capability service in Python', () => {
  let service: PythonCapability;
  let gateway: Gateway;
  beforeAll(async () => {
    [service, gateway] = await Promise.all([startPythonCapability(python), startGateway()]);
    const register = async (kind: string, entry: Readonly<Record<string, unknown>>) =>
      expect(await gateway.api('POST', `/api/v1/${kind}`, entry)).toMatchObject({ status: 201 });
    await register('services', { name: 'python', serviceType: 'multi-capability', address: service.address });
    const stored = { configurationURI: 'vault://configuration/ü', secretsURI: 'vault://secrets/🔑' };
    for (const [name, properties] of Object.entries(TOOLS)) {
      const tool = { name, description: '', uri: `python://${name}`, toolType: 'python', ...stored };
      await register('tools', { ...tool, input_schema: { type: 'object', ...properties } });
    }
    const params = [{ name: 'ort', value: 'Köln' }];
    const record = { name: 'Akte 🗄️', type: 'python', mimeType: 'application/json', params, ...stored };
    await register('resources', { location: 'python://records/1', ...record });
    await register('resources', { location: 'python://refused', name: 'refused', type: 'python' });
  });
  afterAll(() => Promise.all([gateway.close(), service.close()]));

  /** The latest events of a tool's calls, newest first. */
  const latest = async (tool: string, limit = 1) => {
    const { body } = await gateway.api('GET', `/api/v1/tool-calls?toolName=${encodeURIComponent(tool)}&limit=${limit}`);
    return toolCallEvent.array().parse(Object(body).data);
  };

  it('is canceled at the timeout of calls, and detects that', async () => {
    const shortTimeoutGateway = await startTestService({ SERVICE_BRIDGE_GRPC_TIMEOUT_MS: String(TIMEOUT_MS) });
    onTestFinished(() => shortTimeoutGateway.stop(0));
    await shortTimeoutGateway.manage('POST', '/services', {
      name: 'python',
      serviceType: 'tool-invoker',
      address: service.address,
    });
    const tool = { name: 'silent', description: '', uri: 'python://silent', toolType: 'python' };
    await shortTimeoutGateway.register('tools', { ...tool, input_schema: { type: 'object' } });
    const sdk = await connect(shortTimeoutGateway.url(), 'modern');
    onTestFinished(() => sdk.close());
    const message = expect.stringMatching(`^service python at ${service.address} did not answer in time: `);
    const failed = { isError: true, content: [{ text: message }] };
    expect(await sdk.client.callTool({ name: 'silent' })).toMatchObject(failed);
    const { secondsLeft } = await service.next('waiting');
    expect(secondsLeft).toBeGreaterThan(0);
    expect(secondsLeft).toBeLessThanOrEqual(TIMEOUT_MS / 1_000);
    const over = await service.next('given up');
    expect(over.secondsLeft).toBeLessThan(TIMEOUT_MS / 2_000);
    const { data } = await shortTimeoutGateway.manage('GET', '/tool-calls?limit=1');
    expect(data).toMatchObject([{ eventType: 'FAILED', errorCategory: 'SERVICE_UNAVAILABLE', errorMessage: message }]);
  });

  describe.each(['legacy', 'modern'] as const)('and a %s client', (era) => {
    let sdk: SdkClient;
    beforeAll(async () => {
      sdk = await connect(gateway.url(), era);
    });
    afterAll(() => sdk.close());

    it('executes a tool with the values of the call and the tool', async () => {
      const client = era === 'legacy' ? await legacyClient(gateway.url()) : modernClient(gateway.url());
      const params = `{"name":"received","arguments":${ARGUMENTS_TEXT}}`;
      const headers = { 'x-request-id': `${era} request`, cookie: 'a=b' };
      const called = await client.call('tools/call', params, headers);
      const [received, second] = JSON.parse(reply(called)).result.content;
      expect(JSON.parse(received.text)).toEqual({
        message: {
          1: 'python://received',
          2: 'Zeile 1\nZeile 2 🧵',
          3: {
            größe: '10 m² 📏',
            'familie 👨‍👩‍👧': '{"kinder":["Zoë",null,2.5],"":false}',
            zahl: '12345678901234567890',
            leer: '',
            given: 'as given',
          },
          4: 'vault://configuration/ü',
          5: 'vault://secrets/🔑',
          6: { own: 'kept', defined: 'as defined', given: 'as given', overruled: 'credential-7f3a' },
        },
        metadata: { 'x-service-request-id': `${era} request` },
      });
      expect(second).toEqual({ type: 'text', text: 'zweiter Text 🐍' });

      // The event of the call has names and no values.
      const [completed, started] = await latest('received', 2);
      const call = {
        eventId: started?.eventId,
        transport: 'grpc',
        namespace: 'default',
        toolName: 'received',
        toolType: 'python',
        serviceId: 'python',
        serviceAddress: service.address,
        requestId: `${era} request`,
      };
      expect(started).toMatchObject({ ...call, eventType: 'STARTED' });
      expect(started).toMatchObject({
        argumentNames: Object.keys(ARGUMENTS).filter((name) => !name.startsWith('service_auth_')),
        headers: { own: '[REDACTED]', defined: '[REDACTED]', given: '[REDACTED]', overruled: '[REDACTED]' },
      });
      expect(completed).toMatchObject({ ...call, eventType: 'COMPLETED', isError: false });
      expect(completed).toMatchObject({ content: [expect.stringContaining('größe'), 'zweiter Text 🐍'] });
      expect(JSON.stringify(started)).not.toMatch(/10 m²|Zeile|as given|kept|credential|vault:/);
    });

    it('gets a generated request id if it sends none', async () => {
      const { metadata } = JSON.parse(await sdk.callText('received', { größe: 1 }));
      expect(metadata).toEqual({ 'x-service-request-id': expect.stringMatching(UUID) });
    });

    it('gets an error reply of a tool as a result', async () => {
      const content = [{ type: 'text', text: 'das ging nicht 🙁' }];
      expect(await sdk.client.callTool({ name: 'refused' })).toMatchObject({ isError: true, content });
    });

    it.each([
      ['NOT_FOUND', () => 'größer als erlaubt: NOT_FOUND'],
      [
        'FAILED_PRECONDITION',
        () => `service python at ${service.address} cannot do this now: größer als erlaubt: FAILED_PRECONDITION`,
      ],
    ])('gets an error for a tool that failed with the status %s', async (status, text) => {
      const name = `status/${status}`;
      expect(await sdk.client.callTool({ name })).toMatchObject({ isError: true, content: [{ text: text() }] });
      const received = { eventType: 'FAILED', errorCategory: 'SERVICE_UNAVAILABLE', errorMessage: text() };
      expect(await latest(name)).toMatchObject([received]);
    });

    it('cancels a tool at the service', async () => {
      const stop = new AbortController();
      const rejected = expect(sdk.client.callTool({ name: 'silent' }, { signal: stop.signal })).rejects.toThrow(
        'enough',
      );
      await service.next('waiting');
      stop.abort('enough');
      await rejected;
      const { secondsLeft } = await service.next('given up');
      expect(secondsLeft).toBeGreaterThan(0.5);
      await expect.poll(() => latest('silent')).toMatchObject([{ eventType: 'FAILED', errorCategory: 'UNKNOWN' }]);
    });

    it('reads a resource', async () => {
      const { contents } = await sdk.client.readResource({ uri: 'python://records/1' });
      const content = { uri: 'python://records/1', mimeType: 'application/json' };
      expect(contents).toEqual([
        { ...content, text: expect.any(String) },
        { ...content, text: 'zweiter Text 🐍' },
      ]);
      const [first] = contents;
      expect(JSON.parse(first && 'text' in first ? first.text : '')).toEqual({
        message: {
          1: 'python://records/1',
          2: 'python',
          3: 'Akte 🗄️',
          4: { ort: 'Köln' },
          5: 'vault://configuration/ü',
          6: 'vault://secrets/🔑',
        },
        metadata: { 'x-service-request-id': expect.stringMatching(UUID) },
      });
    });

    it('gets an error for a resource that cannot be read', async () => {
      const reading = sdk.client.readResource({ uri: 'python://refused' });
      await expect(reading).rejects.toMatchObject({
        code: -32603,
        message: expect.stringContaining('no such\nrecord 🗄️'),
      });
    });
  });
});
