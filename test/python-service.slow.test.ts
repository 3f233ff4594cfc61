import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort } from './fixtures/free-port.ts';
import { type Gateway, startGateway } from './fixtures/gateway.ts';
import { findPython, type PythonCapability, startPythonCapability } from './fixtures/python-capability.ts';
import { connect, type SdkClient } from './fixtures/sdk-client.ts';

// Operation of a capability service in Python: health and provisioning.

const SCHEMA = { input_schema: { type: 'object' } };

const python = await findPython();

describe.runIf(python !== undefined)('a capability service in Python', () => {
  let port: number;
  let service: PythonCapability;
  let gateway: Gateway;
  let sdk: SdkClient;
  beforeAll(async () => {
    port = await freePort();
    [service, gateway] = await Promise.all([
      startPythonCapability(python, port),
      startGateway({ env: { SERVICE_FORWARD_HEALTHCHECK_INTERVAL: '1' } }),
    ]);
    sdk = await connect(gateway.url(), 'legacy');
  });
  afterAll(async () => {
    await sdk.close();
    await Promise.all([gateway.close(), service.close()]);
  });

  const register = async (kind: string, entry: Readonly<Record<string, unknown>>) =>
    expect(await gateway.api('POST', `/api/v1/${kind}`, entry)).toMatchObject({ status: 201 });
  const add = (name: string, id?: string) =>
    register('services', { name, id, serviceType: 'tool-invoker', address: `127.0.0.1:${port}` });
  const healthBecomes = (name: string, health: string) =>
    expect
      .poll(async () => (await gateway.api('GET', '/api/v1/services')).body)
      .toMatchObject({ data: expect.arrayContaining([expect.objectContaining({ name, health })]) });

  it.each([
    ['0', 'unhealthy', 'STOPPED'],
    ['1', 'unhealthy', 'STOPPING'],
    ['2', 'unhealthy', 'STARTING'],
    ['3', 'healthy', undefined],
    // It does not implement Probe, and responds to GetStatus.
    ['older', 'unhealthy', 'STARTING'],
  ])('with id %s and probe response %s', async (id, health, status) => {
    const name = `of id ${id}`;
    await add(name, id);
    await healthBecomes(name, health);
    if (status !== undefined) {
      const line = { msg: 'capability service is unhealthy', service: name, reason: `status ${status}` };
      await expect.poll(() => gateway.logs).toContainEqual(expect.objectContaining(line));
    }
    expect(await gateway.api('DELETE', `/api/v1/services/${encodeURIComponent(name)}`)).toMatchObject({ status: 200 });
  });

  it('stores configuration and secrets, which its tools then reference', async () => {
    await add('python');
    const given = { name: 'crm ü', configuration: '{"ort":"Köln"}\n', secrets: 'geheim 🔑', uri: 'python://crm' };
    const { status, body } = await gateway.api('POST', '/api/v1/services/python/provisions', given);
    const { data } = Object(body);
    expect(status).toBe(200);
    expect(data).toEqual({
      configurationUri: 'python://configurations/crm ü',
      secretUri: 'python://secrets/crm ü',
      properties: {
        region: { type: 'string', description: 'Wo? 🌍', required: true },
        note: { type: 'string', description: '', required: false },
      },
    });
    const { received } = await service.next('provisioned');
    expect(JSON.parse(String(received)).message).toEqual({
      1: 'python://crm',
      2: { 1: 1, 2: 'crm ü', 3: '{"ort":"Köln"}\n' },
      3: { 1: 1, 2: 'crm ü', 3: 'geheim 🔑' },
    });

    const tool = { name: 'crm', description: '', uri: 'python://received', toolType: 'python', ...SCHEMA };
    await register('tools', { ...tool, configurationURI: data.configurationUri, secretsURI: data.secretUri });
    const { message } = JSON.parse(await sdk.callText('crm'));
    expect(message).toEqual({ 1: 'python://received', 4: data.configurationUri, 5: data.secretUri });
  });

  it('is marked down after its exit, and healthy after its restart, without a restart of the gateway', async () => {
    await register('tools', { name: 'echo', description: '', uri: 'python://received', toolType: 'snake', ...SCHEMA });
    await add('snake');
    await healthBecomes('snake', 'healthy');

    await service.kill();
    await healthBecomes('snake', 'down');
    await expect(sdk.callText('echo')).rejects.toThrow(`service snake at 127.0.0.1:${port} is not available: `);
    expect(await gateway.api('POST', '/api/v1/services/snake/provisions', { name: 'x' })).toMatchObject({
      status: 502,
      body: { error: { message: `service snake at 127.0.0.1:${port} is not available` } },
    });

    service = await startPythonCapability(python, port);
    expect(JSON.parse(await sdk.callText('echo')).message).toEqual({ 1: 'python://received' });
    await healthBecomes('snake', 'healthy');
  });
});
