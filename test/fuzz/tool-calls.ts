import type { Gateway } from '../fixtures/gateway.ts';
import { modernClient } from '../fixtures/raw-client.ts';

/**
 * Has tools called, one that a capability service carries out and one that none does, so that there are events to be read.
 * `address` is that of the service. Throws when a call is not answered.
 */
export async function callTools(gateway: Gateway, address: string): Promise<void> {
  const made = [
    ['services', { name: 'fuzz-service', serviceType: 'tool-invoker', address }],
    ['tools', tool('fuzz-done', 'fuzz-service')],
    ['tools', tool('fuzz-failed', 'fuzz-nowhere')],
  ] as const;
  for (const [kind, body] of made) {
    const { status } = await gateway.api('POST', `/api/v1/${kind}`, body);
    if (status !== 201) throw new Error(`POST /api/v1/${kind} answered ${status}`);
  }
  const client = modernClient(gateway.url());
  for (const name of ['fuzz-done', 'fuzz-failed']) {
    const params = JSON.stringify({ name, arguments: { city: 'Rome', service_auth_key: 'none' } });
    const { status, text } = await client.call('tools/call', params, { 'x-request-id': name });
    if (status !== 200) throw new Error(`${name} answered ${status} ${text}`);
  }
}

function tool(name: string, toolType: string) {
  const input_schema = { type: 'object', properties: { city: { type: 'string' } } };
  return { name, description: '', uri: 'fuzz://tool', toolType, input_schema };
}
