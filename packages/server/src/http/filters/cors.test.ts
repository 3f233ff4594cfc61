import { describe, expect, it } from 'vitest';
import { exchangeParts } from '../exchange.fixture.ts';
import { HttpExchange } from '../exchange.ts';
import type { Outcome } from '../outcome.ts';
import { type CorsSettings, cors } from './cors.ts';

const DEFAULTS: CorsSettings = {
  allow_origins: ['*'],
  allow_methods: ['GET', 'POST'],
  allow_headers: ['Content-Type', 'Mcp-Param-*'],
  expose_headers: ['Mcp-Session-Id'],
  allow_credentials: false,
  max_age: 600,
  disallowed_origin_mode: 'omit',
  allow_null_origin: false,
};

/** Runs the filter; returns its headers as an object with lower-case names. */
function run(settings: Partial<CorsSettings>, origin?: string, method = 'POST', requested?: string) {
  const headers = {
    ...(origin !== undefined && { origin }),
    ...(requested !== undefined && { 'access-control-request-headers': requested }),
  };
  const exchange = new HttpExchange(...exchangeParts({ method, headers }));
  const outcome = cors({ ...DEFAULTS, ...settings })(exchange);
  if (outcome instanceof Promise) throw new Error('the filter waits');
  return { outcome, headers: { ...named(exchange.responseHeaders), ...named(preflightHeaders(outcome)) } };
}

function preflightHeaders(outcome: Outcome | undefined): readonly string[] {
  return outcome?.kind === 'plain' ? (outcome.headers ?? []) : [];
}

function named(raw: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    Array.from({ length: raw.length / 2 }, (_, i) => [String(raw[2 * i]).toLowerCase(), String(raw[2 * i + 1])]),
  );
}

describe('an actual request', () => {
  it('returns * literally, with and without an origin', () => {
    for (const origin of ['https://a.example', 'null', undefined]) {
      const { outcome, headers } = run({}, origin);
      expect(outcome).toBeUndefined();
      expect(headers).toEqual({
        'access-control-allow-origin': '*',
        'access-control-expose-headers': 'Mcp-Session-Id',
      });
    }
  });

  it('returns the request origin if it is allowed', () => {
    const allow_origins = ['https://a.example', 'https://b.example'];
    expect(run({ allow_origins }, 'https://b.example').headers).toEqual({
      'access-control-allow-origin': 'https://b.example',
      'access-control-expose-headers': 'Mcp-Session-Id',
      vary: 'Origin',
    });
    for (const origin of ['https://c.example', 'null', undefined]) {
      expect(run({ allow_origins }, origin)).toEqual({ outcome: undefined, headers: { vary: 'Origin' } });
    }
  });

  it('allows credentials if configured', () => {
    const settings = { allow_origins: ['https://a.example'], allow_credentials: true, expose_headers: [] };
    expect(run(settings, 'https://a.example').headers).toEqual({
      'access-control-allow-origin': 'https://a.example',
      'access-control-allow-credentials': 'true',
      vary: 'Origin',
    });
    expect(run(settings, 'https://c.example').headers).toEqual({ vary: 'Origin' });
  });

  it.each([
    ['https://a.host.example', true],
    ['https://a.b.host.example', true],
    ['https://host.example', false],
    ['http://a.host.example', false],
    ['https://a.host.example:8443', false],
    ['https://evilhost.example', false],
    ['https://a.host.example.evil.example', false],
  ])('from %s is allowed by https://*.host.example: %s', (origin, allowed) => {
    const { headers } = run({ allow_origins: ['https://*.host.example'] }, origin);
    expect(headers['access-control-allow-origin']).toBe(allowed ? origin : undefined);
  });

  it('allows the null origin only if configured', () => {
    const allow_origins = ['https://a.example'];
    expect(run({ allow_origins, allow_null_origin: true }, 'null').headers['access-control-allow-origin']).toBe('null');
    expect(run({ allow_origins }, 'null').headers['access-control-allow-origin']).toBeUndefined();
  });
});

describe('a preflight request', () => {
  it('is answered with 204 and the allowed methods and headers', () => {
    const { outcome, headers } = run({}, 'https://a.example', 'OPTIONS', 'content-type');
    expect(outcome).toMatchObject({ kind: 'plain', status: 204 });
    expect(headers).toMatchObject({
      'access-control-allow-origin': '*',
      'access-control-allow-methods': 'GET, POST',
      'access-control-allow-headers': 'Content-Type',
      'access-control-max-age': '600',
    });
  });

  it('allows all requested headers with an allowed prefix, and no others', () => {
    const { headers } = run(
      {},
      'https://a.example',
      'OPTIONS',
      'mcp-param-A, MCP-Param-b,x-mcp-param-c,mcp-param-\r\nx',
    );
    expect(headers['access-control-allow-headers']).toBe('Content-Type, mcp-param-A, MCP-Param-b');
  });

  it.each([
    ['omit', 204],
    ['reject', 403],
  ] as const)('of an origin that is not allowed has no CORS headers in mode %s', (mode, status) => {
    const settings = { allow_origins: ['https://a.example'], disallowed_origin_mode: mode };
    const { outcome, headers } = run(settings, 'https://b.example', 'OPTIONS');
    expect(outcome).toMatchObject({ kind: 'plain', status });
    expect(headers).toEqual({ vary: 'Origin' });
  });
});
