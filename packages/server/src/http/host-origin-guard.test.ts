import { describe, expect, test } from 'vitest';
import { createHostOriginGuard } from './request-validation.ts';

const LOCAL = '127.0.0.1';
const OTHER = '10.0.0.5';

describe('Host', () => {
  const guard = createHostOriginGuard({ allowedHosts: undefined, corsOrigin: undefined });

  test.each(['localhost', 'LOCALHOST:8081', '127.0.0.1:8080', '127.8.9.1', '[::1]', '[::1]:8081', 'localhost:'])(
    'accepts the loopback host %s on a loopback connection',
    (host) => {
      expect(guard(LOCAL, { host })).toBeUndefined();
      expect(guard('::1', { host })).toBeUndefined();
      expect(guard('::ffff:127.0.0.1', { host })).toBeUndefined();
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
  ])('rejects the host %j on a loopback connection', (host) => {
    const rejection = guard(LOCAL, { host });
    expect(rejection?.status).toBe(403);
    expect(rejection?.reason).toContain('Host');
  });

  test('requires a Host header on a loopback connection', () => {
    expect(guard(LOCAL, {})?.status).toBe(403);
  });

  test.each([
    '10.0.0.5',
    '10.0.0.5:8081',
    '192.0.2.1',
    '[fd00::1]:8081',
    '127.0.0.1',
    'localhost:8081',
    'gateway',
    'gateway:8081',
    'nas.local',
    'NAS.LOCAL.:8081',
    'x.localhost',
    'host.docker.internal:8081',
    'sluice.tools.svc',
    'sluice.tools.svc.cluster.local',
    'box.home.arpa',
    'box7.lab.example',
  ])('accepts the host %s, which is not public, on other connections', (host) => {
    const named = createHostOriginGuard({
      allowedHosts: undefined,
      corsOrigin: undefined,
      machine: 'Box7.lab.example',
    });
    expect(named(OTHER, { host })).toBeUndefined();
    expect(named('::ffff:10.0.0.5', { host })).toBeUndefined();
  });

  test.each([
    'gateway.example',
    'evil.example:8081',
    'local.evil.example',
    'svc.example',
    'notlocal.example',
    '10.0.0.5.evil.example',
    '10.0.0',
    '0x7f.1',
    'evil.example@gateway',
    'gateway:80:80',
    '[::1',
    '',
  ])('rejects the host %j on other connections, and names the setting', (host) => {
    const rejection = guard(OTHER, { host });
    expect(rejection?.status).toBe(403);
    expect(rejection?.reason).toContain('set SERVICE_ALLOWED_HOSTS');
    // A page from that name would have the same origin.
    expect(guard(OTHER, { host, origin: `http://${host}` })?.status).toBe(403);
  });

  test('is not required on other connections: only other programs than browsers omit it', () => {
    expect(guard(OTHER, {})).toBeUndefined();
  });

  test('may be anything for a health check on other connections, unlike its Origin', () => {
    expect(guard(OTHER, { host: 'evil.example' }, true)).toBeUndefined();
    expect(guard(OTHER, { host: 'evil.example', origin: 'https://other.example' }, true)?.status).toBe(403);
    expect(guard(LOCAL, { host: 'evil.example' }, true)?.status).toBe(403);
  });

  test('may be anything with *', () => {
    const open = createHostOriginGuard({ allowedHosts: ['*'], corsOrigin: undefined });
    for (const address of [LOCAL, OTHER]) expect(open(address, { host: 'gateway.example' })).toBeUndefined();
    expect(open(OTHER, {})).toBeUndefined();
    expect(open(OTHER, { host: 'gateway.example', origin: 'https://evil.example' })?.status).toBe(403);
  });

  test('may be an IP address on other connections also with a list', () => {
    const strict = createHostOriginGuard({ allowedHosts: ['gateway.example'], corsOrigin: undefined });
    for (const host of ['10.0.0.5:8081', '[fd00::1]']) expect(strict(OTHER, { host })).toBeUndefined();
    for (const host of ['gateway', 'nas.local']) expect(strict(OTHER, { host })?.status).toBe(403);
    expect(strict(LOCAL, { host: '10.0.0.5:8081' })?.status).toBe(403);
  });

  test('accepts allowed hosts in addition to loopback hosts on loopback connections, and only them on others', () => {
    const strict = createHostOriginGuard({
      allowedHosts: ['gateway.example', 'fixed.example:8081', '[fd00::1]'],
      corsOrigin: undefined,
    });
    for (const address of [LOCAL, OTHER]) {
      expect(strict(address, { host: 'Gateway.example:1234' })).toBeUndefined();
      expect(strict(address, { host: 'fixed.example:8081' })).toBeUndefined();
      expect(strict(address, { host: '[FD00::1]:8081' })).toBeUndefined();
      expect(strict(address, { host: 'fixed.example:8082' })?.status).toBe(403);
      expect(strict(address, { host: 'fixed.example' })?.status).toBe(403);
      expect(strict(address, { host: 'evil.example' })?.status).toBe(403);
    }
    expect(strict(LOCAL, { host: 'localhost:8081' })).toBeUndefined();
    expect(strict(OTHER, { host: 'localhost:8081' })?.status).toBe(403);
    expect(strict(OTHER, {})?.status).toBe(403);
  });

  test('does not share accepted values between kinds of connections', () => {
    const strict = createHostOriginGuard({ allowedHosts: ['gateway.example'], corsOrigin: undefined });
    expect(strict(LOCAL, { host: 'localhost' })).toBeUndefined();
    expect(strict(OTHER, { host: 'localhost' })?.status).toBe(403);
  });
});

describe('Origin', () => {
  const guard = createHostOriginGuard({ allowedHosts: undefined, corsOrigin: undefined });

  test.each(['http://localhost:3000', 'https://127.0.0.1', 'http://[::1]:5173', 'HTTP://LOCALHOST'])(
    'the loopback origin %s passes',
    (origin) => {
      expect(guard(LOCAL, { host: 'localhost:8081', origin })).toBeUndefined();
      expect(guard(OTHER, { host: 'gateway.local', origin })).toBeUndefined();
    },
  );

  test.each([
    'https://evil.example',
    'null',
    '',
    'http://localhost.evil.example',
    'file://localhost',
    'http://localhost@evil.example',
  ])('rejects the foreign origin %j', (origin) => {
    const rejection = guard(LOCAL, { host: 'localhost:8081', origin });
    expect(rejection?.status).toBe(403);
    expect(rejection?.reason).toContain('Origin');
  });

  test.each([
    ['https://gateway.internal', 'gateway.internal'],
    ['https://gateway.internal', 'gateway.internal:443'],
    ['http://gateway.internal:8080', 'Gateway.internal:8080'],
  ])('accepts the origin %s for the host %s', (origin, host) => {
    expect(guard(OTHER, { host, origin })).toBeUndefined();
  });

  test('rejects an origin with another host or port than Host', () => {
    expect(guard(OTHER, { host: 'gateway.internal:8080', origin: 'http://gateway.internal:9090' })?.status).toBe(403);
    expect(guard(OTHER, { host: 'gateway.internal', origin: 'http://gateway.internal:8080' })?.status).toBe(403);
    expect(guard(OTHER, { host: 'gateway.internal', origin: 'https://other.internal' })?.status).toBe(403);
    // The same pair reversed, after one was accepted.
    expect(guard(OTHER, { host: 'other.internal', origin: 'https://other.internal' })).toBeUndefined();
    expect(guard(OTHER, { host: 'gateway.internal', origin: 'https://other.internal' })?.status).toBe(403);
  });

  test('accepts the configured origin only', () => {
    const configured = createHostOriginGuard({ allowedHosts: undefined, corsOrigin: 'https://console.example' });
    expect(configured(LOCAL, { host: 'localhost', origin: 'https://console.example' })).toBeUndefined();
    expect(configured(LOCAL, { host: 'localhost', origin: 'https://Console.example' })).toBeUndefined();
    expect(configured(LOCAL, { host: 'localhost', origin: 'http://console.example' })?.status).toBe(403);
    expect(configured(LOCAL, { host: 'localhost', origin: 'https://console.example.evil' })?.status).toBe(403);
  });

  test('accepts every origin with *', () => {
    const open = createHostOriginGuard({ allowedHosts: undefined, corsOrigin: '*' });
    expect(open(LOCAL, { host: 'localhost', origin: 'https://evil.example' })).toBeUndefined();
    expect(open(LOCAL, { host: 'localhost', origin: 'null' })).toBeUndefined();
  });

  test('rejects a foreign host even with a loopback origin', () => {
    expect(guard(LOCAL, { host: 'evil.example', origin: 'http://localhost' })?.status).toBe(403);
  });
});

test('gives the same result for cached and uncached values', () => {
  const guard = createHostOriginGuard({ allowedHosts: undefined, corsOrigin: undefined });
  for (let round = 0; round < 2; round++) {
    for (let port = 1; port <= 2_000; port++) {
      expect(guard(LOCAL, { host: `localhost:${port}`, origin: `http://localhost:${port}` })).toBeUndefined();
    }
  }
  expect(guard(LOCAL, { host: 'evil.example:1' })?.status).toBe(403);
});

test('truncates a long value in the reason', () => {
  const guard = createHostOriginGuard({ allowedHosts: undefined, corsOrigin: undefined });
  expect(guard(LOCAL, { host: 'x'.repeat(8_000) })?.reason.length).toBeLessThan(400);
});
