import { tryParseJson } from '@sluice/protocol/json/parse';
import { escapeInvisible } from '@sluice/protocol/text';
import { z } from 'zod';

/** Formats a line of the log, with its line break. */
export type LineFormat = (line: string) => string;

const lineSchema = z.looseObject({ ts: z.string(), level: z.string(), target: z.string(), msg: z.string() });
const errorSchema = z.looseObject({
  message: z.string(),
  code: z.union([z.string(), z.number()]).optional(),
  causes: z.array(z.string()).optional(),
  stack: z.string().optional(),
});

/** Fields that the first part of a request's line has. */
const REQUEST_FIELDS = ['method', 'path', 'status', 'duration_ms', 'mcp_method', 'tool', 'prompt'] as const;
/** Ids and repetitions, which are for programs. */
const OMITTED: ReadonlySet<string> = new Set([
  'session_id',
  'x_request_id',
  'trace_id',
  'event_id',
  'event_type',
  'transport',
  'tool_type',
  'service_address',
  'service_request_id',
  'completion_id',
  'call_duration_ms',
]);

const RESET = '\u001b[0m';
const DIM = '\u001b[2m';
const LEVEL_COLORS: Readonly<Record<string, string>> = {
  error: '\u001b[31m',
  warn: '\u001b[33m',
  info: '\u001b[32m',
  debug: DIM,
  trace: DIM,
};

/**
 * Returns the form of the log for people, made of its lines for programs: time of day, level, component, message, and the fields
 * that matter. `timeOfDay` formats an ISO time.
 */
export function textFormat(hasColors: boolean, timeOfDay: (iso: string) => string = localTime): LineFormat {
  const colored = (color: string | undefined, text: string) => (hasColors && color ? `${color}${text}${RESET}` : text);
  return (line) => {
    const parsed = lineSchema.safeParse(tryParseJson(line));
    if (!parsed.success) return line;
    const { ts, level, target, msg, ...fields } = parsed.data;
    const isRequest = target.endsWith('::access');
    const component = target.replace(/^service(?:::)?/, '').replace(/::access$/, '') || 'service';
    const message = isRequest ? requestSummary(fields) : plain(msg);
    let text = `${colored(DIM, timeOfDay(ts))} ${colored(LEVEL_COLORS[level], level.toUpperCase().padEnd(5))} ${component.padEnd(9)} ${message}`;
    let after = '';
    for (const [name, value] of Object.entries(fields)) {
      if (isRequest && (OMITTED.has(name) || REQUEST_FIELDS.some((field) => field === name))) continue;
      const error = errorSchema.safeParse(value);
      text += ` ${colored(DIM, `${plain(name)}=`)}${error.success ? describe(error.data) : format(value)}`;
      if (error.success && error.data.stack) after += indented(error.data.stack);
    }
    return `${text}\n${after}`;
  };
}

/** `POST /default/mcp 200 12 ms tools/call echo`. */
function requestSummary(fields: Readonly<Record<string, unknown>>): string {
  return REQUEST_FIELDS.flatMap((name) => {
    const value = fields[name];
    if (value === undefined) return [];
    return [typeof value === 'number' && name === 'duration_ms' ? `${Math.round(value)} ms` : plain(String(value))];
  }).join(' ');
}

function describe({ message, code, causes = [] }: z.infer<typeof errorSchema>): string {
  const text = [message, ...causes].join(': ');
  return format(code === undefined || text.includes(String(code)) ? text : `${text} (${code})`);
}

/** Text without spaces as it is, other values as JSON: input of others must not look like further fields or lines. */
function format(value: unknown): string {
  return typeof value === 'string' && /^[^\s"=\\]+$/.test(value)
    ? plain(value)
    : escapeInvisible(JSON.stringify(value));
}

/** Text whose control characters are escaped. */
function plain(text: string): string {
  return escapeInvisible(JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"'));
}

function indented(stack: string): string {
  return stack
    .split('\n')
    .slice(1)
    .map((line) => `    ${plain(line.trim())}\n`)
    .join('');
}

function localTime(iso: string): string {
  return new Date(iso).toTimeString().slice(0, 8);
}
