import { expect, it } from 'vitest';
import { resolveEndpoint } from './target.ts';

it.each([
  ['http://localhost:8080', 'http://localhost:8081/default/mcp'],
  ['http://127.0.0.1:9000', 'http://127.0.0.1:9001/default/mcp'],
  ['http://sluice.test', 'http://sluice.test:8081/default/mcp'],
  ['http://[::1]:8080/', 'http://[::1]:8081/default/mcp'],
])('the MCP listener of %s is expected at %s', (host, expected) => {
  expect(resolveEndpoint({ namespace: 'default' }, host, {}).href).toBe(expected);
});
