import { LOG_CAPACITY, type LOG_LEVELS } from '@sluice/contract';
import { detach, ellipsize, escapeInvisible } from '@sluice/protocol/text';
import { EventRing } from './event-ring.ts';

export type LogLevel = (typeof LOG_LEVELS)[number];

/** Least severe level that is written. */
export type LogThreshold = LogLevel | 'off';

/**
 * Targets: the components that log; `service` is the process itself. Those named `access` have one line per request, so that
 * access logs can be enabled separately.
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
export type LogTarget = (typeof LOG_TARGETS)[number];

/** Threshold of every target. */
export type LogFilter = Readonly<Record<LogTarget, LogThreshold>>;

/**
 * Fields of a line. Errors are written as message, code and messages of their causes, with the stack if the target's level is
 * `debug`. Never logged: Authorization, Cookie, api keys, argument values, `service_auth_` values, secrets.
 */
export type LogFields = Readonly<Record<string, unknown>>;

/** Writes one line. Never throws, regardless of the fields. */
export type LogMethod = (msg: string, fields?: LogFields) => void;

/** Logger of one target. Methods of disabled levels do nothing; check `enabled` before creating expensive fields. */
export interface TargetLogger extends Readonly<Record<LogLevel, LogMethod>> {
  readonly enabled: (level: LogLevel) => boolean;
}

/** Logger of a line per request, whose fields are JSON text already: it costs a fifth of one from an object. */
export interface LineLogger {
  readonly enabled: (level: LogLevel) => boolean;
  /** Writes a line with these fields, each of which begins with a comma (see {@link jsonString}); nothing if disabled. */
  readonly write: (level: LogLevel, fields: string) => void;
}

/** A stored line, without its line break. */
export interface RecentLine {
  readonly level: LogLevel;
  readonly line: string;
}

/** Longest line that is stored, in characters: the stored lines of all levels take at most 8 MiB. */
const MAX_STORED_LENGTH = 4_096;

/** Log of the service: one JSON object per line with `ts`, `level`, `target`, `msg` and fields. */
export interface Logger {
  /** The latest lines. */
  readonly recent: EventRing<RecentLine>;
  readonly target: (target: LogTarget) => TargetLogger;
  /** Lines with this message, which needs no escapes. */
  readonly lines: (target: LogTarget, msg: string) => LineLogger;
}

const SEVERITY: Readonly<Record<LogThreshold, number>> = { off: 0, error: 1, warn: 2, info: 3, debug: 4, trace: 5 };

const noop: LogMethod = () => {};

/** Creates the log. `write` receives lines with their line break and must not throw. `now` returns epoch milliseconds. */
export function createLogger(
  filter: LogFilter,
  write: (line: string, level: LogLevel) => void,
  now: () => number = Date.now,
): Logger {
  const recent = new EventRing<RecentLine>(LOG_CAPACITY);
  const store = (text: string, level: LogLevel): void => recent.add({ level, line: boundedLine(text) });
  const enabledAt = (target: LogTarget) => {
    const threshold = SEVERITY[filter[target]];
    return (level: LogLevel): boolean => SEVERITY[level] <= threshold;
  };
  return {
    recent,
    target(target) {
      const enabled = enabledAt(target);
      const withStacks = enabled('debug');
      const at = (level: LogLevel): LogMethod =>
        enabled(level)
          ? (msg, fields) => {
              const text = logLine(now(), level, target, msg, fields, withStacks);
              store(text, level);
              write(text, level);
            }
          : noop;
      return targetLogger(at, enabled);
    },
    lines(target, msg) {
      const enabled = enabledAt(target);
      const start = new LineStart(target, msg);
      return {
        enabled,
        write(level, fields) {
          if (!enabled(level)) return;
          const text = `${start.at(now(), level)}${fields}}\n`;
          store(text, level);
          write(text, level);
        },
      };
    },
  };
}

/** Returns a line without its line break; of one that is too long, only the members that all lines have. */
function boundedLine(text: string): string {
  if (text.length <= MAX_STORED_LENGTH) return text.slice(0, -1);
  const { ts, level, target, msg } = JSON.parse(text);
  return JSON.stringify({ ts, level, target, msg: ellipsize(String(msg), MAX_STORED_LENGTH / 8), truncated: true });
}

/** Returns a logger that adds fields to every line; fields of the line take precedence. */
export function withFields(log: TargetLogger, common: LogFields): TargetLogger {
  return targetLogger((level) => (msg, fields) => log[level](msg, { ...common, ...fields }), log.enabled);
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

/** Characters that JSON escapes, and all beyond visible ASCII. */
const NOT_PLAIN = /[^\x20-\x7e]|["\\]/;

/** Returns the JSON string of a text; characters that a terminal would not show are escaped. */
export function jsonString(text: string): string {
  return NOT_PLAIN.test(text) ? escapeInvisible(JSON.stringify(text)) : `"${text}"`;
}

/** Values of a field whose text is stored, and the length up to which it is. */
const MAX_STORED_VALUES = 1_000;
const MAX_VALUE_LENGTH = 256;

/** A field of many lines with few different values: their texts are stored, since to make one costs more than the rest. */
export class LineField {
  readonly #start: string;
  readonly #texts = new Map<string, string>();

  constructor(name: string) {
    this.#start = `,"${name}":`;
  }

  /** Returns the field with a value as JSON text; empty if there is none. */
  text(value: string | undefined): string {
    return value === undefined ? '' : (this.#texts.get(value) ?? this.#add(value));
  }

  #add(value: string): string {
    const text = this.#start + jsonString(value);
    if (value.length > MAX_VALUE_LENGTH) return text;
    if (this.#texts.size >= MAX_STORED_VALUES) this.#texts.clear();
    // Copies: a part of a request would retain all of it.
    const copy = detach(text);
    this.#texts.set(detach(value), copy);
    return copy;
  }
}

/** Decimals of thousandths. */
const THOUSANDTHS: readonly string[] = Array.from({ length: 1_000 }, (_, n) => `.${String(n).padStart(3, '0')}`);

/** Returns a duration in milliseconds as JSON text with three decimals, which costs a tenth of formatting the number. */
export function msText(ms: number): string {
  const micros = Math.max(0, Math.round(ms * 1_000));
  const whole = Math.floor(micros / 1_000);
  return `${whole}${THOUSANDTHS[micros - 1_000 * whole]}`;
}

/** Begins lines of one target and message. */
class LineStart {
  /** Of the last line, from which most differ only in the milliseconds. */
  #second = -1;
  #beforeMs = '';
  readonly #afterLevel: string;

  constructor(target: LogTarget, msg: string) {
    this.#afterLevel = `","target":"${target}","msg":"${msg}"`;
  }

  /** The first four fields of a line. */
  at(ms: number, level: LogLevel): string {
    const second = Math.floor(ms / 1_000);
    if (second !== this.#second) {
      this.#second = second;
      this.#beforeMs = `{"ts":"${new Date(ms).toISOString().slice(0, -'.000Z'.length)}`;
    }
    return `${this.#beforeMs}${THOUSANDTHS[ms - 1_000 * second]}Z","level":"${level}${this.#afterLevel}`;
  }
}

/** Members of every line. */
const RESERVED: ReadonlySet<string> = new Set(['ts', 'level', 'target', 'msg']);

/**
 * Formats a line with its line break; characters that a terminal would not show are escaped. Fields whose names are reserved are
 * prefixed with `_`.
 */
export function logLine(
  ms: number,
  level: LogLevel,
  target: LogTarget,
  msg: string,
  fields?: LogFields,
  withStacks = false,
): string {
  const own = { ts: new Date(ms).toISOString(), level, target, msg };
  try {
    const line: Record<string, unknown> = Object.assign(Object.create(null), own);
    for (const name in fields) {
      const value = fields[name];
      line[RESERVED.has(name) ? `_${name}` : name] = value instanceof Error ? describeError(value, withStacks) : value;
    }
    return `${escapeInvisible(stringify(line))}\n`;
  } catch {
    return `${JSON.stringify({ ...own, fields: '[unserializable]' })}\n`;
  }
}

/** Formats values that JSON.stringify rejects, too: without cycles, and big integers as text. */
function stringify(line: Readonly<Record<string, unknown>>): string {
  try {
    return JSON.stringify(line);
  } catch {
    return JSON.stringify(serializable(line, []));
  }
}

/** Returns a copy that JSON can represent. `ancestors` are the objects that contain the value. */
function serializable(value: unknown, ancestors: readonly object[]): unknown {
  if (typeof value === 'bigint') return value.toString();
  if (typeof value !== 'object' || value === null) return value;
  if (ancestors.includes(value)) return '[circular]';
  const inside = [...ancestors, value];
  if (Array.isArray(value)) return value.map((item) => serializable(item, inside));
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, serializable(member, inside)]));
}

const MAX_MESSAGE_LENGTH = 4096;
const MAX_CAUSES = 8;

function describeError(error: Error, withStack: boolean): Record<string, unknown> {
  const described: Record<string, unknown> = { message: messageOf(error) };
  const code = codeOf(error);
  if (code !== undefined) described.code = code;
  const causes: string[] = [];
  for (let cause = error.cause; cause !== undefined && cause !== null && causes.length < MAX_CAUSES; ) {
    if (!(cause instanceof Error)) {
      causes.push(ellipsize(typeof cause === 'string' ? cause : typeof cause, MAX_MESSAGE_LENGTH));
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
  // A host that refuses the connection on all its addresses causes an AggregateError without a message.
  if (error.message === '' && error instanceof AggregateError) {
    const messages = error.errors.map((each) => (each instanceof Error ? each.message : typeof each));
    return ellipsize(messages.join('; '), MAX_MESSAGE_LENGTH);
  }
  return ellipsize(error.message === '' ? error.name : error.message, MAX_MESSAGE_LENGTH);
}

function codeOf(error: Error): string | number | undefined {
  if (!('code' in error)) return undefined;
  return typeof error.code === 'string' || typeof error.code === 'number' ? error.code : undefined;
}
