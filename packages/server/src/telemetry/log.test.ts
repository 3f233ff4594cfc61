import { LOG_LEVELS } from '@sluice/contract';
import { describe, expect, it } from 'vitest';
import { createLogger, jsonString, LOG_TARGETS, type LogFields, type LogFilter, type LogThreshold } from './log.ts';

const NOON = Date.UTC(2026, 0, 2, 12, 0, 0, 7);

function filterOf(level: LogThreshold, mcp: LogThreshold = level): LogFilter {
  return {
    service: level,
    'service::mcp': mcp,
    'service::mcp::access': level,
    'service::mgmt': level,
    'service::mgmt::access': level,
    'service::inference': level,
    'service::inference::access': level,
    'service::evaluator': level,
    'service::bridge': level,
    'service::registry': level,
    'service::forward': level,
  };
}

function recorder(filter: LogFilter) {
  const lines: string[] = [];
  return {
    lines,
    logger: createLogger(
      filter,
      (line) => lines.push(line),
      () => NOON,
    ),
  };
}

/** The parsed line of one message with these fields. */
function written(fields: LogFields, level: LogThreshold = 'info'): Record<string, unknown> {
  const { lines, logger } = recorder(filterOf(level));
  logger.target('service').error('m', fields);
  expect(lines).toHaveLength(1);
  expect(lines[0]).toMatch(/^[^\n]+\n$/);
  return JSON.parse(lines.join(''));
}

describe('a line', () => {
  it('is one JSON object with time, level, target, message and fields, in this order', () => {
    const { lines, logger } = recorder(filterOf('info'));
    logger.target('service::forward').warn('two\nlines', { forward: 'crm', after: 4 });
    expect(lines).toEqual([
      '{"ts":"2026-01-02T12:00:00.007Z","level":"warn","target":"service::forward","msg":"two\\nlines","forward":"crm","after":4}\n',
    ]);
  });

  it('contains no characters that a terminal does not show: they are escaped', () => {
    const hidden = '\u001b[2J\u0007\u007f\u009b2J\u200b\u202e\u2066\ufeff';
    const { lines, logger } = recorder(filterOf('info'));
    const circular: Record<string, unknown> = { [hidden]: hidden };
    circular.self = circular;
    logger.target('service').warn(hidden, { [hidden]: hidden, error: new Error(hidden) });
    logger.target('service').warn(hidden, circular);
    expect(lines).toHaveLength(2);
    for (const line of lines) {
      expect(line).toMatch(/^[ -~]+\n$/);
      expect(JSON.parse(line).msg).toBe(hidden);
    }
  });

  it('may have no fields', () => {
    const { lines, logger } = recorder(filterOf('info'));
    logger.target('service').info('ready');
    expect(lines).toEqual(['{"ts":"2026-01-02T12:00:00.007Z","level":"info","target":"service","msg":"ready"}\n']);
  });

  it('keeps its members if a field has the same name', () => {
    expect(written({ level: 'x', msg: 'y' })).toMatchObject({ level: 'error', msg: 'm', _level: 'x', _msg: 'y' });
  });
});

describe('levels', () => {
  it.each<[LogThreshold, number]>([
    ['off', 0],
    ['error', 1],
    ['warn', 2],
    ['info', 3],
    ['debug', 4],
    ['trace', 5],
  ])('%s enables %i of the five', (threshold, count) => {
    const { lines, logger } = recorder(filterOf(threshold));
    for (const target of LOG_TARGETS) for (const level of LOG_LEVELS) logger.target(target)[level](level);
    const seen = lines.map((line) => JSON.parse(line).level);
    expect(seen).toEqual(LOG_TARGETS.flatMap(() => LOG_LEVELS.slice(0, count)));
    expect(LOG_LEVELS.filter(logger.target('service').enabled)).toEqual(LOG_LEVELS.slice(0, count));
  });

  it('are those of the target', () => {
    const { lines, logger } = recorder(filterOf('error', 'debug'));
    logger.target('service::mcp').debug('seen');
    logger.target('service::mgmt').debug('not seen');
    expect(lines).toHaveLength(1);
  });

  it('that are disabled share one method, which ignores its fields', () => {
    const log = recorder(filterOf('error')).logger.target('service::mcp');
    expect(log.debug).toBe(log.trace);
    log.debug('m', {
      get costly(): never {
        throw new Error('looked at');
      },
    });
  });
});

describe('an error', () => {
  const refused = Object.assign(new Error('connect refused'), { code: 'ECONNREFUSED' });

  it('is written as message, code and messages of its causes', () => {
    const err = new Error('forward "crm" failed', { cause: new Error('fetch failed', { cause: refused }) });
    expect(written({ err: Object.assign(err, { code: 'E_FORWARD' }) }).err).toEqual({
      message: 'forward "crm" failed',
      code: 'E_FORWARD',
      causes: ['fetch failed', 'connect refused (ECONNREFUSED)'],
    });
  });

  it('contains its stack only at level debug', () => {
    expect(written({ err: refused }).err).toEqual({ message: 'connect refused', code: 'ECONNREFUSED' });
    expect(written({ err: refused }, 'debug').err).toMatchObject({ stack: expect.stringContaining('log.test') });
  });

  it('without a message contains those of its aggregated errors', () => {
    expect(written({ err: new AggregateError([refused, new Error('timed out'), 3], '') }).err).toEqual({
      message: 'connect refused; timed out; number',
    });
    expect(written({ err: new TypeError() }).err).toEqual({ message: 'TypeError' });
  });

  it('has a bounded chain of causes: cycles, non-errors, long messages', () => {
    const loop = new Error('loop');
    loop.cause = loop;
    expect(written({ err: loop }).err).toEqual({ message: 'loop', causes: Array(8).fill('loop') });
    expect(written({ err: new Error('a', { cause: 'text' }) }).err).toEqual({ message: 'a', causes: ['text'] });
    expect(written({ err: new Error('a', { cause: { secret: 's' } }) }).err).toEqual({
      message: 'a',
      causes: ['object'],
    });
    expect(JSON.stringify(written({ err: new Error('x'.repeat(100_000)) })).length).toBeLessThan(5000);
  });

  it('may be any value and any field', () => {
    expect(written({ err: 'text', other: refused })).toMatchObject({
      err: 'text',
      other: { message: 'connect refused' },
    });
  });
});

describe('fields that JSON cannot represent', () => {
  it('are written without cycles', () => {
    const shared = { a: 1 };
    const knot: Record<string, unknown> = { shared, list: [shared, 10n ** 20n] };
    knot.self = knot;
    expect(written({ knot, after: true })).toMatchObject({
      knot: { shared, list: [shared, '100000000000000000000'], self: '[circular]' },
      after: true,
    });
  });

  it('never suppress the message', () => {
    const hostile = {
      toJSON() {
        throw new Error('no');
      },
    };
    const bottomless: unknown[] = [];
    for (let depth = 0, inner = bottomless; depth < 20_000; depth++) {
      const next: unknown[] = [];
      inner.push(next);
      inner = next;
    }
    expect(written({ hostile })).toMatchObject({ msg: 'm' });
    expect(written({ bottomless })).toMatchObject({ msg: 'm' });
    expect(
      written({
        get broken(): never {
          throw new Error('no');
        },
      }),
    ).toMatchObject({ msg: 'm' });
  });
});

describe('lines whose fields are JSON text', () => {
  it.each([
    ['plain values', { path: '/default/mcp', empty: '' }],
    ['escapes', { path: '/"\\\n\u0000' }],
    ['other alphabets', { user: 'Zoë 日本 \u{1f980}', after: 'x' }],
    ['invisible characters', { user: 'a\u202eb\u007f', lone: '\ud800' }],
    ['long values', { user: 'x'.repeat(10_000), other: 'é'.repeat(10_000), last: 'y' }],
  ])('are those of an object: %s', (_name, fields) => {
    const { lines, logger } = recorder(filterOf('info'));
    logger.target('service::mcp::access').info('request', fields);
    const text = Object.entries(fields).map(([name, value]) => `,"${name}":${jsonString(value)}`);
    logger.lines('service::mcp::access', 'request').write('info', text.join(''));
    const [fromObject, fromText] = lines;
    expect(fromText).toBe(fromObject);
  });

  it('have the time, level, target and message of their own', () => {
    const lines: string[] = [];
    let ms = 0;
    const logger = createLogger(
      filterOf('debug'),
      (line) => lines.push(line),
      () => ms,
    );
    for (const target of ['service::mcp::access', 'service::mgmt::access'] as const) {
      for (const msg of ['request', 'other']) {
        const { write } = logger.lines(target, msg);
        for (const time of [1, 1, 2, 1_002]) {
          ms = time;
          for (const level of ['info', 'debug', 'debug'] as const) {
            logger.target(target)[level](msg, { a: 'b' });
            write(level, ',"a":"b"');
            const [fromObject, fromText] = lines.splice(0);
            expect(fromText).toBe(fromObject);
          }
        }
      }
    }
  });

  it('are not written if their level is disabled', () => {
    const { lines, logger } = recorder(filterOf('warn'));
    logger.lines('service::mcp::access', 'request').write('info', ',"a":"b"');
    expect(lines).toEqual([]);
  });
});
