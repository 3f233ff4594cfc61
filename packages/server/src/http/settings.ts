import { z } from 'zod';

/**
 * Invalid configuration: startup fails (decisions 1.1). The message is one line with the name of the variable, flag or
 * file (with line and key), the problem and the accepted values. It never contains a secret.
 */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

/** Parser of the text of one setting. */
export interface Setting<T> {
  /** Accepted values, as the end of the sentence "expected ...". */
  readonly accepts: string;
  /** Returns the value. Throws {@link InvalidSettingError}. */
  readonly parse: (text: string) => T;
  /** True for a text that messages must not contain. */
  readonly secret?: boolean;
}

/** An invalid text; the message is a predicate without its subject ("has no port"), which {@link readSetting} completes. */
export class InvalidSettingError extends Error {
  override readonly name = 'InvalidSettingError';
}

/** Returns the value of an environment variable; undefined if it is unset or empty (decisions 1.2). Throws {@link ConfigError}. */
export function readSetting<T>(env: NodeJS.ProcessEnv, name: string, setting: Setting<T>): T | undefined {
  const text = env[name];
  if (text === undefined || text === '') return undefined;
  try {
    return setting.parse(text);
  } catch (error) {
    if (!(error instanceof InvalidSettingError)) throw error;
    const subject = setting.secret === true ? 'the value' : quote(text);
    throw new ConfigError(`${name}: ${subject} ${error.message}; expected ${setting.accepts}`);
  }
}

/** Schema of a text in a file with the syntax of a setting. */
export function settingSchema<T>({ parse, accepts }: Setting<T>) {
  return z.string().transform((text, { addIssue }): T => {
    try {
      return parse(text);
    } catch (error) {
      if (!(error instanceof InvalidSettingError)) throw error;
      addIssue({ code: 'custom', message: `${error.message}; expected ${accepts}` });
      return z.NEVER;
    }
  });
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
export function integer(min: number, max: number): Setting<number> {
  return {
    accepts: `a whole number from ${min} to ${max}`,
    parse: (text) => {
      if (!/^\d+$/.test(text)) throw new InvalidSettingError('is not a whole number');
      const value = Number(text);
      if (value < min) throw new InvalidSettingError(`is below ${min}`);
      if (value > max) throw new InvalidSettingError(`is above ${max}`);
      return value;
    },
  };
}

/** One of the given values. */
export function oneOf<const T extends string>(...values: readonly T[]): Setting<T> {
  return {
    accepts: values.map((value) => `"${value}"`).join(' or '),
    parse: (text) => {
      const found = values.find((value) => value === text);
      if (found === undefined) throw new InvalidSettingError('is not supported');
      return found;
    },
  };
}

/** A file system path; its reader checks whether it exists. */
export const path: Setting<string> = { accepts: 'a path', parse: (text) => text };

const KEY_BYTES = 32;

/** A key of 32 bytes in hex or base64 (either alphabet, padding optional). */
export const key: Setting<Buffer> = {
  accepts: `${KEY_BYTES} bytes in base64 (44 characters) or hex (64 digits), as printed by: openssl rand -base64 ${KEY_BYTES}`,
  secret: true,
  parse: (text) => {
    if (/^[0-9a-f]{64}$/i.test(text)) return Buffer.from(text, 'hex');
    if (/^[A-Za-z0-9+/_-]{43}=?$/.test(text)) return Buffer.from(text, 'base64');
    throw new InvalidSettingError(`is not a ${KEY_BYTES}-byte key (got ${text.length} characters)`);
  },
};

/** Splits a comma-separated list; items are trimmed, empty ones dropped. */
export function commaList(text: string): string[] {
  return text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');
}
