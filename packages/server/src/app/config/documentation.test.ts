import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { parseEnvironment, resolveBridgeGrpc } from './environment.ts';

const read = (path: string) => readFileSync(new URL(`../../../../../${path}`, import.meta.url), 'utf8');

/** The settings of an environment, with the defaults that the bootstrap file can replace. */
function settingsOf(env: NodeJS.ProcessEnv) {
  const { bridgeGrpc, ...others } = parseEnvironment(env);
  const fileSettings = { timeoutMs: undefined, maxRetries: undefined, retryDelayMs: undefined };
  return { ...others, bridgeGrpc: resolveBridgeGrpc(bridgeGrpc, fileSettings) };
}

/** The cells of the rows of all tables in a page. */
const rows = (page: string) =>
  page
    .split('\n')
    .filter((line) => line.startsWith('| '))
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );

const UNITS: Readonly<Record<string, number>> = { s: 1_000, KiB: 1024, MiB: 1024 ** 2 };

/** `64 MiB`, `300 s` or `10,000` as a number of bytes, milliseconds or items. */
function amount(text: string): number {
  const [, digits = '', unit] = /^([\d,]+)(?: (s|KiB|MiB))?$/.exec(text) ?? [];
  return Number(digits.replaceAll(',', '')) * (unit === undefined ? 1 : (UNITS[unit] ?? Number.NaN));
}

describe('the documented default of', () => {
  const settings = rows(read('docs/configuration.md')).flatMap(([name = '', value = '']) => {
    const [, variable] = /^`(SERVICE_[A-Z_]+)`$/.exec(name) ?? [];
    const [, fallback] = /^`([\w:.]+)`$/.exec(value) ?? [];
    return variable !== undefined && fallback !== undefined ? [[variable, fallback] as const] : [];
  });

  test.each(settings)('%s is that of the service: %s', (variable, fallback) => {
    const alone = variable === 'SERVICE_MCP_LISTEN' || variable === 'SERVICE_INFERENCE_LISTEN';
    // The defaults of these two are in the pipeline.
    if (!alone && variable !== 'SERVICE_INFERENCE_UPSTREAM') {
      expect(settingsOf({ [variable]: fallback })).toEqual(settingsOf({}));
    }
  });
});

describe('the limit in docs/security.md', () => {
  const limits = rows(read('docs/security.md')).flatMap(([limit = '', value = '', setting = '']) => {
    const [, variable] = /^`(SERVICE_[A-Z_]+)`$/.exec(setting) ?? [];
    return variable !== undefined && /^\d/.test(value) ? [[limit, value, variable] as const] : [];
  });

  test.each(limits)('%s is %s by default (%s)', (_limit, value, variable) => {
    expect(settingsOf({ [variable]: String(amount(value)) })).toEqual(settingsOf({}));
  });

  test('is there for every setting with a maximum', () => {
    const documented = new Set(limits.map(([, , variable]) => variable));
    const all = rows(read('docs/configuration.md')).flatMap(
      ([name = '']) => /SERVICE_\w*(?:MAX|LIMIT)\w*/.exec(name) ?? [],
    );
    // Retries are no limit of memory or time, and staleness has none by default.
    const others = new Set(['SERVICE_BRIDGE_GRPC_MAX_RETRIES', 'SERVICE_REPLICA_MAX_STALENESS']);
    const missing = all.filter((variable) => !documented.has(variable) && !others.has(variable));
    expect(missing).toEqual([]);
  });
});
