import type { UpstreamKind } from '../upstream-kind.ts';
import { McpForwardConnection } from './forward-connection.ts';
import { testForward } from './forward-test/forward-test.ts';
import { secretOrigins } from './upstream.ts';

/** MCP servers that are reached by Streamable HTTP. */
export const mcpHttp: UpstreamKind = {
  name: 'mcp',
  forwards: {
    schemes: ['http:', 'https:'],
    validate: () => undefined,
    connectionKey: ({ address, headers = {}, proxy, compression }) =>
      JSON.stringify([address, Object.entries(headers).sort(), proxy, compression]),
    origins: secretOrigins,
    open: (forward, deps) => new McpForwardConnection(forward, deps),
    test: (target, { registry: { turns }, catalogLimits: limits, ...deps }) =>
      testForward(target, { ...deps, turns, limits }),
  },
};
