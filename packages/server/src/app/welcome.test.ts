import { expect, it } from 'vitest';
import { welcome } from './welcome.ts';

const ADDRESSES = { management: '0.0.0.0:8080', mcp: '[::]:8081', agents: '127.0.0.1:8082' };
const TLS = {
  certPath: '/c.pem',
  keyPath: '/k.pem',
  certAt: { file: 'p', line: 1, column: 1 },
  keyAt: { file: 'p', line: 1, column: 1 },
};

it('contains the local addresses of management API and MCP', () => {
  const text = welcome(ADDRESSES, [{ name: 'mcp', tls: undefined }]);
  expect(text).toContain('--host http://localhost:8080\n');
  expect(text).toContain('point your MCP client at http://localhost:8081/default/mcp\n');
  expect(text).toContain('http://localhost:8080/api/docs');
});

it('uses https if the listener mcp has TLS', () => {
  const listeners = [
    { name: 'agents', tls: undefined },
    { name: 'mcp', tls: TLS },
  ];
  expect(welcome(ADDRESSES, listeners)).toContain('point your MCP client at https://localhost:8081/default/mcp\n');
});

it('contains the public URLs instead, if they are set', () => {
  const urls = { publicUrl: { href: 'https://h/gw' }, consoleUrl: { href: 'https://ops/c' } };
  const text = welcome(ADDRESSES, [{ name: 'mcp', tls: undefined }], urls);
  expect(text).toContain('--host https://ops/c\n');
  expect(text).toContain('point your MCP client at https://h/gw/default/mcp\n');
  expect(text).toContain('https://ops/c/api/docs');
  expect(text).not.toContain('localhost');
});

it('omits MCP clients without a listener mcp', () => {
  const { management, agents } = ADDRESSES;
  const text = welcome({ management, agents }, [{ name: 'agents', tls: TLS }]);
  expect(text).not.toContain('/default/mcp');
  expect(text.trimEnd().split('\n')).toHaveLength(3);
});
