import { describe, expect, it } from 'vitest';
import { shortWelcome, welcome } from './welcome.ts';

const SERVED = {
  addresses: { management: '0.0.0.0:8080', mcp: '[::]:8081', agents: '127.0.0.1:8082' },
  listeners: [{ name: 'mcp', tls: undefined }],
  uiPath: '/console',
};
const TLS = {
  certPath: '/c.pem',
  keyPath: '/k.pem',
  certAt: { file: 'p', line: 1, column: 1 },
  keyAt: { file: 'p', line: 1, column: 1 },
};

describe('on a terminal', () => {
  it('names console and endpoint, and how to connect a client and add a server', () => {
    expect(welcome(SERVED, 'npx sluice')).toBe(`Sluice is running
  Console           http://localhost:8080/admin/
  MCP endpoint      http://localhost:8081/default/mcp
  Connect a client  npx sluice configure claude-code   (or claude, cursor, vscode)
  Add a server      npx sluice forwards add NAME http://HOST:PORT/mcp
  API reference     http://localhost:8080/api/docs
`);
  });

  it('has the options that commands need for other ports', () => {
    const addresses = { management: '127.0.0.1:9090', mcp: '127.0.0.1:9091' };
    const text = welcome({ ...SERVED, addresses }, 'sluice');
    expect(text).toContain('sluice configure claude-code --mcp-url http://127.0.0.1:9091 ');
    expect(text).toContain('sluice forwards add NAME http://HOST:PORT/mcp --host http://127.0.0.1:9090\n');
  });

  it('uses https if the listener mcp has TLS', () => {
    const listeners = [
      { name: 'agents', tls: undefined },
      { name: 'mcp', tls: TLS },
    ];
    expect(welcome({ ...SERVED, listeners })).toContain('https://localhost:8081/default/mcp\n');
  });

  it('contains the public URLs instead, if they are set', () => {
    const text = welcome({ ...SERVED, publicUrl: { href: 'https://h/gw' }, consoleUrl: { href: 'https://ops/c' } });
    for (const part of ['--host https://ops/c\n', 'https://h/gw/default/mcp\n', 'https://ops/c/admin/\n']) {
      expect(text).toContain(part);
    }
    expect(text).not.toContain('localhost');
  });

  it('omits the console and MCP where they are not served', () => {
    const { management, agents } = SERVED.addresses;
    const text = welcome({ addresses: { management, agents }, listeners: [{ name: 'agents', tls: TLS }] });
    expect(text).not.toMatch(/admin|default|configure/);
    expect(text.trimEnd().split('\n')).toHaveLength(3);
  });
});

describe('in a pipe, one line', () => {
  it('names console and endpoint', () => {
    expect(shortWelcome(SERVED)).toBe(
      'Sluice is running: console http://localhost:8080/admin/, MCP http://localhost:8081/default/mcp\n',
    );
  });

  it('names the API without a console', () => {
    expect(shortWelcome({ ...SERVED, listeners: [], uiPath: undefined })).toBe(
      'Sluice is running: management API http://localhost:8080\n',
    );
  });
});
