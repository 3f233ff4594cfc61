import type { UpstreamKind } from '../upstream-kind.ts';
import { McpForwardConnection } from './forward-connection.ts';
import { testForward } from './forward-test/forward-test.ts';
import { secretOrigins } from './upstream.ts';

/** MCP servers that are reached by Streamable HTTP. */
export const mcpHttp: UpstreamKind = {
  name: 'mcp',
  schemes: ['http:', 'https:'],
  validate: problemWith,
  connectionKey: ({ address, headers = {}, proxy, compression }) =>
    JSON.stringify([address, Object.entries(headers).sort(), proxy, compression]),
  origins: secretOrigins,
  open: (forward, deps) => new McpForwardConnection(forward, deps),
  test: (target, { registry: { turns }, catalogLimits: limits, ...deps }) =>
    testForward(target, { ...deps, turns, limits }),
};

/** Returns what is wrong with the address of a server. A valid one is used without normalization. */
function problemWith(address: string): string | undefined {
  const url = /^https?:\/\/[^/?#\s\\\p{Cc}][^\s\\\p{Cc}]*$/iu.test(address) ? URL.parse(address) : null;
  if (!url) return 'must be an http or https URL';
  // It is stored and returned.
  return url.username === '' && url.password === '' ? undefined : 'must not carry a user name or password';
}
