import { Failure } from '../failure.ts';

const MCP_PORT = '8081';

/**
 * The MCP endpoint of a namespace. `base` is where the MCP listener is; derived, it is where the management API is, and
 * the listener is on its usual port there. Throws {@link Failure} for anything but a plain http or https URL.
 */
export function endpointUrl(base: string, derived: boolean, namespace: string): URL {
  const url = URL.parse(base);
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw new Failure(`--mcp-url "${base}": must be an http or https URL such as http://localhost:${MCP_PORT}`);
  }
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') {
    throw new Failure('--mcp-url: must not carry a user name, password, query or fragment');
  }
  if (derived) {
    url.port = MCP_PORT;
    url.pathname = '';
  }
  url.pathname = `${url.pathname.replace(/\/+$/, '')}/${namespace}/mcp`;
  return url;
}
