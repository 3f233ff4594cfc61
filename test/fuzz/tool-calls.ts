import type { Gateway } from '../fixtures/gateway.ts';
import { modernClient } from '../fixtures/raw-client.ts';

/**
 * Calls a tool with a capability service and one without, so that there are tool-call events. `address` is that of the
 * service. Throws if a call fails.
 */
export async function callTools(gateway: Gateway, address: string): Promise<void> {
  const entries = [
    ['services', { name: 'fuzz-service', serviceType: 'tool-invoker', address }],
    ['tools', tool('fuzz-done', 'fuzz-service')],
    ['tools', tool('fuzz-failed', 'fuzz-nowhere')],
  ] as const;
  for (const [kind, body] of entries) {
    const { status } = await gateway.api('POST', `/api/v1/${kind}`, body);
    if (status !== 201) throw new Error(`POST /api/v1/${kind} returned ${status}`);
  }
  const client = modernClient(gateway.url());
  for (const name of ['fuzz-done', 'fuzz-failed']) {
    const params = JSON.stringify({ name, arguments: { city: 'Rome', service_auth_key: 'none' } });
    const { status, text } = await client.call('tools/call', params, { 'x-request-id': name });
    if (status !== 200) throw new Error(`${name} returned ${status} ${text}`);
  }
}

function tool(name: string, toolType: string) {
  const input_schema = { type: 'object', properties: { city: { type: 'string' } } };
  return { name, description: '', uri: 'fuzz://tool', toolType, input_schema };
}
