import type { PublicUrl } from '../http/public-url.ts';
import type { PipelineListener } from './config/pipeline/pipeline.ts';

/** Public URLs of the listeners, which replace their bound addresses. */
export interface PublicUrls {
  readonly publicUrl?: Pick<PublicUrl, 'href'> | undefined;
  readonly consoleUrl?: Pick<PublicUrl, 'href'> | undefined;
}

/**
 * Next steps on a first start, for standard output; the log goes to standard error. `addresses`: the bound addresses by
 * listener name.
 */
export function welcome(
  addresses: Readonly<Record<string, string>>,
  listeners: readonly Pick<PipelineListener, 'name' | 'tls'>[],
  { publicUrl, consoleUrl }: PublicUrls = {},
): string {
  const management = consoleUrl?.href ?? `http://${reachable(addresses.management)}`;
  const mcp = listeners.find(({ name }) => name === 'mcp');
  const base = publicUrl?.href ?? (mcp && `${mcp.tls ? 'https' : 'http'}://${reachable(addresses.mcp)}`);
  const endpoint = base && `${base}/default/mcp`;
  return (
    `Sluice is up; nothing is registered yet. Register an upstream MCP server:\n` +
    `  npx sluice forwards add my-tools http://HOST:PORT/mcp --host ${management}\n` +
    // A pipeline may have no listener with this name.
    (endpoint ? `Then point your MCP client at ${endpoint}\n` : '') +
    `API reference: ${management}/api/docs. Guided demo: npm run demo\n`
  );
}

/** Returns an address that clients on this machine can use: `localhost` for a listener on all interfaces. */
function reachable(address = ''): string {
  return address.replace(/^(?:0\.0\.0\.0|\[::\]):/, 'localhost:');
}
