import { Failure } from '../failure.ts';

const MCP_PORT = '8081';

/**
 * The MCP endpoint of a namespace beside the management API at `host` (as `--host` was parsed): the MCP listener on its
 * usual port. Throws {@link Failure} where that cannot be told; `option` is the one that names the address then.
 */
export function usualEndpoint(host: string, namespace: string, option: '--mcp-url' | '--uri'): URL {
  const url = new URL(host);
  // What leads to the management API by its path may lead to the MCP listener by another, or by none.
  if (url.pathname !== '/') throw new Failure(`--host ${host} does not tell where the MCP listener is: give ${option}`);
  url.port = MCP_PORT;
  url.pathname = `/${namespace}/mcp`;
  return url;
}

/** The MCP endpoint of a namespace at the MCP listener of `--mcp-url`. Throws {@link Failure} for what is none. */
export function endpointAt(mcpUrl: string, namespace: string): URL {
  const url = URL.parse(mcpUrl);
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw new Failure(`--mcp-url "${mcpUrl}": must be an http or https URL such as http://localhost:${MCP_PORT}`);
  }
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') {
    throw new Failure('--mcp-url: must not carry a user name, password, query or fragment');
  }
  url.pathname = `${url.pathname.replace(/\/+$/, '')}/${namespace}/mcp`;
  return url;
}
