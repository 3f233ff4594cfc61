import { describe, expect, test } from 'vitest';
import { createHostOriginGuard } from './host-origin-guard.ts';

const LOCAL = '127.0.0.1';
const OTHER = '10.0.0.5';

describe('Host', () => {
  const guard = createHostOriginGuard({ allowedHosts: undefined, corsOrigin: undefined });

  test.each(['localhost', 'LOCALHOST:8081', '127.0.0.1:8080', '127.8.9.1', '[::1]', '[::1]:8081', 'localhost:'])(
    'a connection to loopback may name the loopback host %s',
    (host) => {
      expect(guard(LOCAL, host, undefined)).toBeUndefined();
      expect(guard('::1', host, undefined)).toBeUndefined();
      expect(guard('::ffff:127.0.0.1', host, undefined)).toBeUndefined();
    },
  );

  test.each([
    'evil.example',
    'localhost.evil.example',
    '127.0.0.1.evil.example',
    'evil.example@localhost',
    '0.0.0.0:80',
    '10.0.0.5',
    '',
    'localhost:80:80',
    '127.evil',
  ])('a connection to loopback may not name %j', (host) => {
    const refusal = guard(LOCAL, host, undefined);
    expect(refusal?.status).toBe(403);
    expect(refusal?.reason).toContain('Host');
  });

  test('a connection to loopback must name a host', () => {
    expect(guard(LOCAL, undefined, undefined)?.status).toBe(403);
  });

  test('any other connection may name every host', () => {
    expect(guard(OTHER, 'gateway.example', undefined)).toBeUndefined();
    expect(guard(OTHER, undefined, undefined)).toBeUndefined();
  });

  test('allowed hosts are accepted beside loopback ones on loopback, and alone elsewhere', () => {
    const strict = createHostOriginGuard({
      allowedHosts: ['gateway.example', 'fixed.example:8081', '[fd00::1]'],
      corsOrigin: undefined,
    });
    for (const address of [LOCAL, OTHER]) {
      expect(strict(address, 'Gateway.example:1234', undefined)).toBeUndefined();
      expect(strict(address, 'fixed.example:8081', undefined)).toBeUndefined();
      expect(strict(address, '[FD00::1]:8081', undefined)).toBeUndefined();
      expect(strict(address, 'fixed.example:8082', undefined)?.status).toBe(403);
      expect(strict(address, 'fixed.example', undefined)?.status).toBe(403);
      expect(strict(address, 'evil.example', undefined)?.status).toBe(403);
    }
    expect(strict(LOCAL, 'localhost:8081', undefined)).toBeUndefined();
    expect(strict(OTHER, 'localhost:8081', undefined)?.status).toBe(403);
    expect(strict(OTHER, undefined, undefined)?.status).toBe(403);
  });

  test('what was accepted on one kind of connection is not accepted on the other', () => {
    const strict = createHostOriginGuard({ allowedHosts: ['gateway.example'], corsOrigin: undefined });
    expect(strict(LOCAL, 'localhost', undefined)).toBeUndefined();
    expect(strict(OTHER, 'localhost', undefined)?.status).toBe(403);
  });
});

describe('Origin', () => {
  const guard = createHostOriginGuard({ allowedHosts: undefined, corsOrigin: undefined });

  test.each(['http://localhost:3000', 'https://127.0.0.1', 'http://[::1]:5173', 'HTTP://LOCALHOST'])(
    'the loopback origin %s passes',
    (origin) => {
      expect(guard(LOCAL, 'localhost:8081', origin)).toBeUndefined();
      expect(guard(OTHER, 'gateway.example', origin)).toBeUndefined();
    },
  );

  test.each([
    'https://evil.example',
    'null',
    '',
    'http://localhost.evil.example',
    'file://localhost',
    'http://localhost@evil.example',
  ])('the foreign origin %j is refused', (origin) => {
    const refusal = guard(LOCAL, 'localhost:8081', origin);
    expect(refusal?.status).toBe(403);
    expect(refusal?.reason).toContain('Origin');
  });

  test.each([
    ['https://gateway.example', 'gateway.example'],
    ['https://gateway.example', 'gateway.example:443'],
    ['http://gateway.example:8080', 'Gateway.example:8080'],
  ])('the origin %s of the page that %s served passes', (origin, host) => {
    expect(guard(OTHER, host, origin)).toBeUndefined();
  });

  test('another port or host than that of Host is another origin', () => {
    expect(guard(OTHER, 'gateway.example:8080', 'http://gateway.example:9090')?.status).toBe(403);
    expect(guard(OTHER, 'gateway.example', 'http://gateway.example:8080')?.status).toBe(403);
    expect(guard(OTHER, 'gateway.example', 'https://other.example')?.status).toBe(403);
    // The same pair the other way round, after one was accepted.
    expect(guard(OTHER, 'other.example', 'https://other.example')).toBeUndefined();
    expect(guard(OTHER, 'gateway.example', 'https://other.example')?.status).toBe(403);
  });

  test('the configured origin passes, and only it', () => {
    const configured = createHostOriginGuard({ allowedHosts: undefined, corsOrigin: 'https://console.example' });
    expect(configured(LOCAL, 'localhost', 'https://console.example')).toBeUndefined();
    expect(configured(LOCAL, 'localhost', 'https://Console.example')).toBeUndefined();
    expect(configured(LOCAL, 'localhost', 'http://console.example')?.status).toBe(403);
    expect(configured(LOCAL, 'localhost', 'https://console.example.evil')?.status).toBe(403);
  });

  test('an explicit * lets every origin pass', () => {
    const open = createHostOriginGuard({ allowedHosts: undefined, corsOrigin: '*' });
    expect(open(LOCAL, 'localhost', 'https://evil.example')).toBeUndefined();
    expect(open(LOCAL, 'localhost', 'null')).toBeUndefined();
  });

  test('a loopback origin does not excuse a foreign host', () => {
    expect(guard(LOCAL, 'evil.example', 'http://localhost')?.status).toBe(403);
  });
});

test('many different values are judged alike, remembered or not', () => {
  const guard = createHostOriginGuard({ allowedHosts: undefined, corsOrigin: undefined });
  for (let round = 0; round < 2; round++) {
    for (let port = 1; port <= 2_000; port++) {
      expect(guard(LOCAL, `localhost:${port}`, `http://localhost:${port}`)).toBeUndefined();
    }
  }
  expect(guard(LOCAL, 'evil.example:1', undefined)?.status).toBe(403);
});

test('a reason shows a long value cut', () => {
  const guard = createHostOriginGuard({ allowedHosts: undefined, corsOrigin: undefined });
  expect(guard(LOCAL, 'x'.repeat(8_000), undefined)?.reason.length).toBeLessThan(400);
});
