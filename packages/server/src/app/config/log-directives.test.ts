import { describe, expect, it } from 'vitest';
import { LOG_TARGETS, type LogFilter } from '../../telemetry/log.ts';
import { DEFAULT_LOG_FILTER, logDirectives } from './environment.ts';

/** Filter with one level for all targets except the given ones and their access logs. */
function filterOf(all: string, but: Record<string, string> = {}): Record<string, string> {
  return Object.fromEntries(
    LOG_TARGETS.map((target) => [target, but[target] ?? but[target.replace('::access', '')] ?? all]),
  );
}

describe('log directives', () => {
  it.each<[string, Record<string, string>]>([
    ['off', filterOf('off')],
    ['error', filterOf('error')],
    ['warn', filterOf('warn')],
    ['info', filterOf('info')],
    ['DEBUG', filterOf('debug')],
    ['trace', filterOf('trace')],
    [',', filterOf('info')],
    ['warn,debug', filterOf('debug')],
    ['service::mcp', filterOf('off', { 'service::mcp': 'trace' })],
    ['service::mcp=debug', filterOf('off', { 'service::mcp': 'debug' })],
    [' service::mcp = Debug , warn ', filterOf('warn', { 'service::mcp': 'debug' })],
    ['off,service::forward=info', filterOf('off', { 'service::forward': 'info' })],
    ['service=debug', filterOf('debug')],
    ['service::registry=off,service=debug', filterOf('debug', { 'service::registry': 'off' })],
    ['service=debug,service::registry=off', filterOf('debug', { 'service::registry': 'off' })],
    ['service::mcp=debug,service::mcp=error', filterOf('off', { 'service::mcp': 'error' })],
    ['service::m=error', filterOf('off', { 'service::mcp': 'error', 'service::mgmt': 'error' })],
    [
      'service::mcp=warn,service::mcp::access=info',
      filterOf('off', { 'service::mcp': 'warn', 'service::mcp::access': 'info' }),
    ],
    ['other::part=trace', filterOf('off')],
  ])('%j set the levels', (text, filter) => {
    expect(logDirectives.parse(text)).toEqual({ filter, warnings: [] });
  });

  it('default to info for all targets', () => {
    expect(DEFAULT_LOG_FILTER).toEqual<LogFilter>(logDirectives.parse('info').filter);
  });

  it.each([
    ['[request]', '[request]'],
    ['service::mcp[request]=trace', 'service::mcp[request]=trace'],
    ['[request{id=1,user="a"}]=debug', '[request{id=1,user=\\"a\\"}]=debug'],
  ])('ignore the span filter %j with a warning', (text, display) => {
    const { filter, warnings } = logDirectives.parse(`warn,${text},service::bridge=error`);
    expect(filter).toEqual(filterOf('warn', { 'service::bridge': 'error' }));
    expect(warnings).toEqual([`span filter "${display}" is ignored: spans are not supported`]);
  });

  it('warns of a directive that is neither a level nor a target', () => {
    const { filter, warnings } = logDirectives.parse('inof');
    expect(filter).toEqual(filterOf('info'));
    expect(warnings).toEqual([expect.stringContaining('"inof"')]);
  });

  it.each([
    '=debug',
    'service::mcp=',
    'service::mcp=verbose',
    'service::mcp=debug=info',
    '5',
    'a b',
    'service::mcp/x',
    '[request',
    'request]',
    '[a{b]=info,debug',
  ])('rejects %j', (text) => {
    expect(logDirectives.safeParse(text).success).toBe(false);
  });
});
