import { describe, expect, it } from 'vitest';
import { createLogger, type LogFields, type LogFilter, type LogLevel, type LogTarget } from './log.ts';
import { textFormat } from './log-text.ts';

const FILTER: LogFilter = {
  service: 'debug',
  'service::mcp': 'debug',
  'service::mcp::access': 'debug',
  'service::mgmt': 'debug',
  'service::mgmt::access': 'debug',
  'service::inference': 'debug',
  'service::inference::access': 'debug',
  'service::evaluator': 'debug',
  'service::bridge': 'debug',
  'service::registry': 'debug',
  'service::forward': 'debug',
};

function text(target: LogTarget, level: LogLevel, msg: string, fields?: LogFields, hasColors = false): string {
  let line = '';
  const format = textFormat(hasColors, (iso) => iso.slice(11, 19));
  createLogger(
    FILTER,
    (written) => (line = format(written)),
    () => 0,
  )
    .target(target)
    [level](msg, fields);
  return line;
}

describe('a line of the log as text', () => {
  it.each<[LogTarget, LogLevel, string, LogFields | undefined, string]>([
    ['service', 'info', 'stopped', undefined, '00:00:00 INFO  service   stopped\n'],
    [
      'service::forward',
      'warn',
      'forward unavailable',
      { forward: 'crm', reason: 'no answer within 5 s', retry_ms: 4000 },
      '00:00:00 WARN  forward   forward unavailable forward=crm reason="no answer within 5 s" retry_ms=4000\n',
    ],
    [
      'service',
      'info',
      'listening',
      { management: '127.0.0.1:8080', tags: ['a', 'b'] },
      '00:00:00 INFO  service   listening management=127.0.0.1:8080 tags=["a","b"]\n',
    ],
    [
      'service::mcp::access',
      'info',
      'request',
      {
        method: 'POST',
        path: '/default/mcp',
        status: 200,
        duration_ms: 12.345,
        handled: 'proxied',
        mcp_method: 'tools/call',
        tool: 'echo',
        upstream: 'crm',
        session_id: '0123456789abcdef',
        trace_id: '0123456789abcdef',
        is_error: false,
      },
      '00:00:00 INFO  mcp       POST /default/mcp 200 12 ms tools/call echo handled=proxied upstream=crm is_error=false\n',
    ],
  ])('%s %s %s', (target, level, msg, fields, expected) => {
    expect(text(target, level, msg, fields)).toBe(expected);
  });

  it('has the stack of an error in lines of its own', () => {
    const error = new Error('cannot write', { cause: new Error('disk full') });
    error.stack = 'Error: cannot write\n    at write (store.ts:1:2)\n    at commit (store.ts:3:4)';
    expect(text('service::registry', 'error', 'commit failed', { error, attempt: 2 })).toBe(
      '00:00:00 ERROR registry  commit failed error="cannot write: disk full" attempt=2\n' +
        '    at write (store.ts:1:2)\n    at commit (store.ts:3:4)\n',
    );
  });

  it('colors the level on a terminal', () => {
    expect(text('service', 'error', 'failed', undefined, true)).toContain('\u001b[31mERROR\u001b[0m');
    expect(text('service', 'error', 'failed')).not.toContain('\u001b');
  });

  it.each(['a\nb=c', '\u001b[2Jx', 'x\u202ey', '\u009b31m', 'a "b" c', 'a\\b'])(
    'escapes %j in every place',
    (hostile) => {
      const lines = [
        text('service', 'info', hostile, { field: hostile, [hostile]: 1, error: new Error(hostile) }),
        text('service::mcp::access', 'info', 'request', {
          method: hostile,
          path: `/${hostile}`,
          tool: hostile,
          user: hostile,
        }),
      ];
      for (const line of lines) {
        // biome-ignore lint/suspicious/noControlCharactersInRegex: these must not occur
        expect(line.slice(0, line.indexOf('\n'))).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u202e]/);
      }
      expect(lines[1]?.split('\n')).toHaveLength(2);
    },
  );

  it('leaves other text as it is', () => {
    expect(textFormat(true)('not a line\n')).toBe('not a line\n');
  });
});
