/** Default ports of the management listener and of its authenticating proxy, with those of the MCP listener. */
const PORTS: Readonly<Record<string, string>> = { 8080: '8081', 4181: '4180' };

/** Returns the likely URL of a namespace's MCP endpoint: the management API does not know how clients reach the other port. */
export function mcpUrl(base: string, namespace: string): string {
  const url = new URL(base);
  url.port = PORTS[url.port] ?? url.port;
  return `${url.origin}/${namespace}/mcp`;
}
