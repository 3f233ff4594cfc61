import { type Client, unwrap } from '@sluice/contract/client';

/**
 * Which of a forward's tools agents do not get, because others have their names: ` (3 shadowed by forward crm; give
 * --prefix)`. Empty when they get all, and when that cannot be asked: the forward is there in any case.
 */
export async function describeShadowedTools(
  client: Client,
  { name: forward, namespace }: { readonly name: string; readonly namespace: string },
): Promise<string> {
  const query = { namespace, include: 'shadowed' as const };
  const tools = await unwrap(client.GET('/api/v1/tools', { params: { query } })).catch(() => []);
  const ours = tools.filter((tool) => tool.forward === forward);
  const names = new Set(ours.filter(({ shadowed }) => shadowed).map(({ name }) => name));
  if (names.size === 0) return '';
  const holders = tools.filter(({ name, shadowed }) => names.has(name) && !shadowed);
  const by = [...new Set(holders.map((tool) => (tool.forward ? `forward ${tool.forward}` : 'tools made by hand')))];
  const those = `shadowed by ${by.join(', ')}`;
  return names.size === ours.length ? `, all ${those} (give --prefix)` : ` (${names.size} ${those}; give --prefix)`;
}
