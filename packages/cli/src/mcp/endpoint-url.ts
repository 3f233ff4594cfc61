import { Failure } from '../failure.ts';
import type { Terminal } from '../terminal/terminal.ts';

const MCP_PORT = '8081';

/**
 * The MCP endpoint of a namespace beside the management API at `host` (as `--host` was parsed): the MCP listener on its
 * usual port. Throws {@link Failure} where that cannot be told.
 */
function defaultEndpoint(host: string, namespace: string): URL {
  const url = new URL(host);
  // What leads to the management API by its path may lead to the MCP listener by another, or by none.
  if (url.pathname !== '/') throw new Failure(`--host ${host} does not tell where the MCP listener is: give --mcp-url`);
  url.port = MCP_PORT;
  url.pathname = `/${encodeURIComponent(namespace)}/mcp`;
  return url;
}

/**
 * The MCP endpoint of a namespace: at the MCP listener that `--mcp-url` names, else SLUICE_MCP_URL, else the usual one
 * beside `host`. Throws {@link Failure}.
 */
export function resolveEndpoint(
  { mcpUrl, namespace }: { readonly mcpUrl?: string | undefined; readonly namespace: string },
  host: string,
  { SLUICE_MCP_URL }: Terminal['env'],
): URL {
  if (mcpUrl !== undefined) return endpointAt(mcpUrl, namespace, '--mcp-url');
  if (SLUICE_MCP_URL) return endpointAt(SLUICE_MCP_URL, namespace, 'SLUICE_MCP_URL');
  return defaultEndpoint(host, namespace);
}

/** The endpoint at a listener's URL, which may be that of the endpoint already. `source` is where the URL is from. */
function endpointAt(mcpUrl: string, namespace: string, source: string): URL {
  const url = URL.parse(mcpUrl);
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw new Failure(`${source} "${mcpUrl}": must be an http or https URL such as http://localhost:${MCP_PORT}`);
  }
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') {
    throw new Failure(`${source}: must not carry a user name, password, query or fragment`);
  }
  const [, given] = /\/([^/]+)\/mcp\/*$/.exec(url.pathname) ?? [];
  if (given === encodeURIComponent(namespace)) return url;
  if (given !== undefined) {
    throw new Failure(
      `${source} is the endpoint of the namespace ${given}, not of ${namespace}: give -N, or leave out /${given}/mcp`,
    );
  }
  url.pathname = `${url.pathname.replace(/\/+$/, '')}/${encodeURIComponent(namespace)}/mcp`;
  return url;
}
