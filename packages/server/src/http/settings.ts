import { z } from 'zod';
import { HOP_BY_HOP, TOKEN } from './header-lines.ts';

/**
 * Invalid configuration: startup fails. The message is one line with the name of the variable, flag or
 * file (with line and key), the problem and the accepted values. It never contains a secret.
 */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

/** An invalid text; the message is a predicate without its subject: "has no port". */
export class InvalidSettingError extends Error {
  override readonly name = 'InvalidSettingError';
}

/**
 * Creates the schema of a setting from the parser of its text, which throws {@link InvalidSettingError}. `accepts` names the
 * accepted values; messages do not contain a secret text. Issues are predicates: "has no port; expected host:port".
 */
export function textSchema<T>(accepts: string, parse: (text: string) => T, isSecret = false) {
  return z.string().transform((text, { addIssue }): T => {
    try {
      return parse(text);
    } catch (error) {
      if (!(error instanceof InvalidSettingError)) throw error;
      addIssue({ code: 'custom', message: `${error.message}; expected ${accepts}`, params: { isSecret } });
      return z.NEVER;
    }
  });
}

/** Returns the schema of a setting that {@link parseVariables} parses from this variable. */
export function variable<Schema extends z.ZodType>(name: string, schema: Schema): Schema {
  return schema.meta({ variable: name });
}

/**
 * Parses environment variables, named by their keys or by {@link variable}; empty ones are unset. Throws {@link ConfigError} for
 * the first invalid one in the order of the schemas.
 */
export function parseVariables<Shape extends z.ZodRawShape>(
  env: NodeJS.ProcessEnv,
  shape: Shape,
): z.output<z.ZodObject<Shape>> {
  const names = Object.fromEntries(
    Object.entries(shape).map(([key, schema]) => [key, String(z.globalRegistry.get(schema)?.variable ?? key)]),
  );
  const texts = Object.entries(names).map(([key, name]) => [key, env[name] || undefined]);
  const result = z.object(shape).safeParse(Object.fromEntries(texts));
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  const name = names[String(issue?.path[0])] ?? '';
  const isSecret = issue?.code === 'custom' && issue.params?.isSecret === true;
  throw new ConfigError(`${name}: ${isSecret ? 'the value' : quote(env[name] ?? '')} ${issue?.message}`);
}

const MAX_QUOTE_LENGTH = 120;

/** Quotes external text for a one-line message: escaped, truncated, without the credentials of a URL. */
export function quote(text: string): string {
  const masked = text.replace(/\/\/[^/?#\s]*@/g, '//***@');
  return JSON.stringify(masked.length > MAX_QUOTE_LENGTH ? `${masked.slice(0, MAX_QUOTE_LENGTH)}...` : masked);
}

/** Longest delay of a timer in milliseconds; with a longer one Node.js fires at once. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

/** A whole number from `min` to `max`, both included, in decimal digits. */
export function integer(min: number, max: number) {
  return textSchema(`a whole number from ${min} to ${max}`, (text) => {
    if (!/^\d+$/.test(text)) throw new InvalidSettingError('is not a whole number');
    const value = Number(text);
    if (value < min) throw new InvalidSettingError(`is below ${min}`);
    if (value > max) throw new InvalidSettingError(`is above ${max}`);
    return value;
  });
}

/** One of the given values. */
export function oneOf<const T extends string>(...values: readonly [T, ...T[]]) {
  return z.enum(values, { error: `is not supported; expected ${values.map((value) => `"${value}"`).join(' or ')}` });
}

const KEY_BYTES = 32;

/** A key of 32 bytes in hex or base64 (either alphabet, padding optional). */
export const key = textSchema(
  `${KEY_BYTES} bytes in base64 (44 characters) or hex (64 digits), as printed by: openssl rand -base64 ${KEY_BYTES}`,
  (text) => {
    if (/^[0-9a-f]{64}$/i.test(text)) return Buffer.from(text, 'hex');
    if (/^[A-Za-z0-9+/_-]{43}=?$/.test(text)) return Buffer.from(text, 'base64');
    throw new InvalidSettingError(`is not a ${KEY_BYTES}-byte key (got ${text.length} characters)`);
  },
  true,
);

/** Splits a comma-separated list; items are trimmed, empty ones dropped. */
export function commaList(text: string): string[] {
  return text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');
}

/** Schemas that the settings of several filters share. */

/** Headers that frame a message or control the connection: filters cannot set or remove them. */
const FRAMING_HEADERS: ReadonlySet<string> = new Set([...HOP_BY_HOP, 'content-length', 'host']);

/** A header name (RFC 9110 5.1). */
export const headerName = z.string().regex(TOKEN, { error: 'must be a header name' });

/** Name of a header that a filter can set or remove. */
export const editableHeader = headerName.refine((name) => !FRAMING_HEADERS.has(name.toLowerCase()), {
  error: 'must not be a header that the server sets itself',
});

/** A header to add or set. */
export const headerField = z.strictObject({
  name: editableHeader,
  value: z.string().regex(/^(?![\t ])[\t\x20-\x7e\x80-\xff]*(?<![\t ])$/, {
    error: 'must not have invalid characters or surrounding spaces',
  }),
});

/** Headers and values that a request must have. */
export const requiredHeaders = z.record(headerName, z.string()).superRefine((headers, { addIssue }) => {
  const seen = new Set<string>();
  for (const name of Object.keys(headers)) {
    // No request could have both values.
    if (seen.has(name.toLowerCase())) addIssue({ code: 'custom', path: [name], message: 'is a duplicate' });
    seen.add(name.toLowerCase());
  }
});

/** A request path or path prefix. */
export const path = z.string().regex(/^\/[!"$->@-~]*$/, {
  error: 'must be a path that starts with / and is percent-encoded',
});

/** An HTTP method. */
export const method = z.string().regex(/^[A-Z][A-Z-]*$/, { error: 'must be a method in capital letters, such as GET' });

/** A size limit in bytes. */
export const byteLimit = z
  .int()
  .min(1)
  .max(2 ** 31);
