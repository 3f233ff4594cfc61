import type { Writable } from 'node:stream';

/**
 * What a line says besides its message. Errors are written as message, code and messages of their causes, with the
 * stack when the target's debug level is on. Never put in: Authorization, Cookie, api keys, argument values,
 * `service_auth_` values, secrets (decisions 1.2).
 */
export type LogFields = Readonly<Record<string, unknown>>;

/** Writes one line. Never throws, whatever the fields are. */
export type LogMethod = (msg: string, fields?: LogFields) => void;

/** The log of one target. A method of a level that is off does nothing; ask `enabled` before costly fields are made. */
export interface TargetLogger extends Readonly<Record<LogLevel, LogMethod>> {
  readonly enabled: (level: LogLevel) => boolean;
}

/** The service's log (decisions 1.2): one JSON object per line with `ts`, `level`, `target`, `msg` and fields. */
export interface Logger {
  readonly target: (target: LogTarget) => TargetLogger;
}

const SEVERITY: Readonly<Record<LogThreshold, number>> = { off: 0, error: 1, warn: 2, info: 3, debug: 4, trace: 5 };

const nothing: LogMethod = () => {};

/** Makes the log. `write` takes finished lines with their line break and must not throw; `now` is epoch milliseconds. */
export function createLogger(filter: LogFilter, write: (line: string) => void, now: () => number = Date.now): Logger {
  const make = (target: LogTarget): TargetLogger => {
    const threshold = SEVERITY[filter[target]];
    const enabled = (level: LogLevel): boolean => SEVERITY[level] <= threshold;
    const withStacks = enabled('debug');
    const at = (level: LogLevel): LogMethod =>
      enabled(level) ? (msg, fields) => write(logLine(now(), level, target, msg, fields, withStacks)) : nothing;
    return targetLogger(at, enabled);
  };
  const loggers: Readonly<Record<LogTarget, TargetLogger>> = {
    service: make('service'),
    'service::mcp': make('service::mcp'),
    'service::mcp::access': make('service::mcp::access'),
    'service::mgmt': make('service::mgmt'),
    'service::mgmt::access': make('service::mgmt::access'),
    'service::inference': make('service::inference'),
    'service::inference::access': make('service::inference::access'),
    'service::evaluator': make('service::evaluator'),
    'service::bridge': make('service::bridge'),
    'service::registry': make('service::registry'),
    'service::forward': make('service::forward'),
  };
  return { target: (target) => loggers[target] };
}

/** A log whose lines have these fields besides their own, which count where both have one. */
export function logAbout(log: TargetLogger, about: LogFields): TargetLogger {
  return targetLogger((level) => (msg, fields) => log[level](msg, { ...about, ...fields }), log.enabled);
}

function targetLogger(at: (level: LogLevel) => LogMethod, enabled: TargetLogger['enabled']): TargetLogger {
  return {
    error: at('error'),
    warn: at('warn'),
    info: at('info'),
    debug: at('debug'),
    trace: at('trace'),
    enabled,
  };
}

/** One line of the log with its line break. A field that carries a name of the line's own gets `_` in front. */
export function logLine(
  ms: number,
  level: LogLevel,
  target: LogTarget,
  msg: string,
  fields?: LogFields,
  withStacks = false,
): string {
  const ts = new Date(ms).toISOString();
  let line = `{"ts":"${ts}","level":"${level}","target":"${target}","msg":${JSON.stringify(msg)}`;
  try {
    for (const name in fields) {
      const value = fields[name];
      if (value === undefined) continue;
      const text = JSON.stringify(value instanceof Error ? describeError(value, withStacks) : value);
      if (text !== undefined) line += `,${PLAIN.test(name) ? `"${name}"` : JSON.stringify(fieldName(name))}:${text}`;
    }
    return `${line}}\n`;
  } catch {
    return careful({ ts, level, target, msg }, fields, withStacks);
  }
}

/** The members that every line has; a field of such a name gets another. */
const OWN: ReadonlySet<string> = new Set(['ts', 'level', 'target', 'msg']);
/** Names that stand in a line as they are. */
const PLAIN = /^(?!(?:ts|level|target|msg)$)\w+$/;

function fieldName(name: string): string {
  return OWN.has(name) ? `_${name}` : name;
}

/** The same line when plain serialising failed: cycles cut, big integers as text, and at worst without its fields. */
function careful(own: LogFields, fields: LogFields | undefined, withStacks: boolean): string {
  try {
    const line: Record<string, unknown> = { ...own };
    for (const name in fields) {
      const value = fields[name];
      line[fieldName(name)] = value instanceof Error ? describeError(value, withStacks) : value;
    }
    return `${JSON.stringify(plain(line, []))}\n`;
  } catch {
    return `${JSON.stringify({ ...own, fields: '[unserialisable]' })}\n`;
  }
}

/** A copy that JSON can carry. `above` are the objects that contain the value. */
function plain(value: unknown, above: readonly object[]): unknown {
  if (typeof value === 'bigint') return value.toString();
  if (typeof value !== 'object' || value === null) return value;
  if (above.includes(value)) return '[circular]';
  const inside = [...above, value];
  if (Array.isArray(value)) return value.map((item) => plain(item, inside));
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, plain(member, inside)]));
}

const LONGEST_MESSAGE = 4096;
const MOST_CAUSES = 8;

function describeError(error: Error, withStack: boolean): Record<string, unknown> {
  const described: Record<string, unknown> = { message: messageOf(error) };
  const code = codeOf(error);
  if (code !== undefined) described.code = code;
  const causes: string[] = [];
  for (let cause = error.cause; cause !== undefined && cause !== null && causes.length < MOST_CAUSES; ) {
    if (!(cause instanceof Error)) {
      causes.push(cut(typeof cause === 'string' ? cause : typeof cause));
      break;
    }
    const causeCode = codeOf(cause);
    causes.push(causeCode === undefined ? messageOf(cause) : `${messageOf(cause)} (${causeCode})`);
    cause = cause.cause;
  }
  if (causes.length > 0) described.causes = causes;
  if (withStack && error.stack !== undefined) described.stack = error.stack;
  return described;
}

function messageOf(error: Error): string {
  // A connection refused on every address of a host is an AggregateError without a message of its own.
  if (error.message === '' && error instanceof AggregateError) {
    return cut(error.errors.map((each) => (each instanceof Error ? each.message : typeof each)).join('; '));
  }
  return cut(error.message === '' ? error.name : error.message);
}

function codeOf(error: Error): string | number | undefined {
  if (!('code' in error)) return undefined;
  return typeof error.code === 'string' || typeof error.code === 'number' ? error.code : undefined;
}

function cut(text: string): string {
  return text.length > LONGEST_MESSAGE ? `${text.slice(0, LONGEST_MESSAGE)}...` : text;
}

/** Where log lines go. */
export interface LogSink {
  /** Takes one finished line; it reaches the stream at the end of this turn of the event loop. Never throws. */
  readonly write: (line: string) => void;
  /**
   * Hands over at once what has been taken. For the process' `exit` event, after which no turn comes: files and
   * terminals then have everything, a pipe as much as it has room for.
   */
  readonly flush: () => void;
  /** How many lines have been dropped so far. */
  readonly dropped: () => number;
}

const MOST_PENDING_BYTES = 8 * 1024 * 1024;

/**
 * The sink of the service's standard error, for which it is made (other streams stop for good after an error). Node
 * writes to files and terminals synchronously and to pipes asynchronously. So the lines of one turn go out as one
 * write: measured with 16 lines per turn, a line costs 0.7 µs in a file instead of 2.2 µs. And a pipe that nobody reads
 * neither stops the service nor grows in memory: beyond `mostPending` bytes lines are dropped, and their number is
 * logged as soon as the reader goes on. Errors of the stream (EPIPE once the reader has gone, ENOSPC) lose the lines
 * concerned and nothing else; each later turn tries again, since a named pipe gets new readers and a disk new room.
 */
export function createLogSink(stream: Writable, mostPending: number = MOST_PENDING_BYTES): LogSink {
  let batch = '';
  let scheduled = false;
  let dropped = 0;
  let droppedEver = 0;

  const flush = (): void => {
    scheduled = false;
    if (batch === '') return;
    const text = batch;
    batch = '';
    stream.write(text);
  };
  const write = (line: string): void => {
    if (stream.writableLength + batch.length > mostPending) {
      dropped++;
      droppedEver++;
      return;
    }
    batch += line;
    if (scheduled) return;
    scheduled = true;
    setImmediate(flush);
  };

  stream.on('drain', () => {
    if (dropped === 0) return;
    const count = dropped;
    dropped = 0;
    write(logLine(Date.now(), 'warn', 'service', 'log lines dropped: standard error was not read in time', { count }));
  });
  stream.on('error', () => {});
  return { write, flush, dropped: () => droppedEver };
}

/** From the gravest to the most talkative. */
export const LOG_LEVELS = ['error', 'warn', 'info', 'debug', 'trace'] as const;
/** How grave a line is. */
export type LogLevel = (typeof LOG_LEVELS)[number];

/** The most talkative level that is still written. */
export type LogThreshold = LogLevel | 'off';

/**
 * The parts that a line can come from (decisions 1.2); `service` itself tells of the process' own life. Those called
 * `access` have a line per request, so that it can be had or done without by itself.
 */
export const LOG_TARGETS = [
  'service',
  'service::mcp',
  'service::mcp::access',
  'service::mgmt',
  'service::mgmt::access',
  'service::inference',
  'service::inference::access',
  'service::evaluator',
  'service::bridge',
  'service::registry',
  'service::forward',
] as const;
/** The part that a line comes from. */
export type LogTarget = (typeof LOG_TARGETS)[number];

/** The threshold of every target. */
export type LogFilter = Readonly<Record<LogTarget, LogThreshold>>;
