import { expect, it } from 'vitest';
import { post, send } from '../../../../test/fixtures/raw-client.ts';
import type { TestService } from '../../testing/service.ts';
import { at, pipelineTests } from './pipeline.fixture.ts';

const { run, upstream } = pipelineTests();

/** Its addresses cannot be bound: the service starts only if the environment replaces them. */
const file = (fast: string) => `
listeners:
  - { name: mcp, address: '192.0.2.1:1', filter_chains: [mcp] }
  - { name: inference, address: '192.0.2.1:2', filter_chains: [models] }
filter_chains:
  - { name: mcp, filters: [{ filter: mcp }, { filter: service_namespace }, { filter: service_methods }] }
  - name: models
    filters:
      - { filter: router, routes: [{ path_prefix: /, cluster: inference }] }
      - { filter: load_balancer, clusters: [{ name: inference, endpoints: ['${fast}'] }] }
`;
const REPLACED = { SERVICE_MCP_LISTEN: '127.0.0.1:0', SERVICE_INFERENCE_LISTEN: '127.0.0.1:0' };

/** Status, upstream and path of a completion request. */
async function reached(service: TestService) {
  const { status, text } = await send(at(service, 'inference', '/v1/x?q'), 'GET');
  const { name, url } = JSON.parse(text);
  return [status, name, url];
}

it('SERVICE_MCP_LISTEN and SERVICE_INFERENCE_LISTEN replace the addresses of the listeners mcp and inference', async () => {
  const service = await run(file(await upstream('file')), REPLACED);
  const ping = await post(at(service, 'mcp', '/default/mcp'), '{"jsonrpc":"2.0","id":1,"method":"ping"}');
  expect(ping.text).toBe('{"jsonrpc":"2.0","id":1,"result":{}}');
  expect(await reached(service)).toEqual([200, 'file', '/v1/x?q']);
});

it.each([
  [
    'SERVICE_MCP_LISTEN',
    { ...REPLACED, SERVICE_INFERENCE_LISTEN: '' },
    /p\.yaml:4:24: cannot listen on 192\.0\.2\.1:2/,
  ],
  [
    'SERVICE_INFERENCE_LISTEN',
    { ...REPLACED, SERVICE_MCP_LISTEN: '' },
    /p\.yaml:3:18: cannot listen on 192\.0\.2\.1:1/,
  ],
])(
  '%s replaces no other address; the error names the listener that cannot be bound',
  async (_variable, env, message) => {
    await expect(run(file('127.0.0.1:1'), env)).rejects.toThrow(message);
  },
);

it.each(['SERVICE_MCP_LISTEN', 'SERVICE_INFERENCE_LISTEN'])('%s requires its listener', async (variable) => {
  const other = file('127.0.0.1:1').replace('name: mcp, a', 'name: x, a').replace('name: inference, a', 'name: y, a');
  await expect(run(other, { [variable]: '127.0.0.1:0' })).rejects.toThrow(
    new RegExp(`^${variable}: the pipeline has no listener .*\\(listeners: "x", "y"\\)$`),
  );
});

it('the upstream of the cluster inference comes from the API, the environment or the file, in this order', async () => {
  const [ofFile, ofEnvironment, ofApi] = [await upstream('file'), await upstream('environment'), await upstream('api')];
  const service = await run(file(ofFile), { ...REPLACED, SERVICE_INFERENCE_UPSTREAM: `http://${ofEnvironment}/base/` });
  expect(await reached(service)).toEqual([200, 'environment', '/base/v1/x?q']);
  const { status } = await service.manage('POST', '/config/inference', { upstream: `http://${ofApi}/api` });
  expect(status).toBe(200);
  expect(await reached(service)).toEqual([200, 'api', '/api/v1/x?q']);
});
