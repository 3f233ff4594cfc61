import { ConfigError } from './config-error.ts';

/** How the text of one setting becomes a value. */
export interface Setting<T> {
  /** What is accepted, as the end of the sentence "accepted: ...". */
  readonly accepts: string;
  /** The value. Throws {@link InvalidSettingError} for a text that is not accepted. */
  readonly parse: (text: string) => T;
  /** True for a text that no message may repeat. */
  readonly secret?: boolean;
}

/** Why a text was refused, as a predicate without its subject ("has no port"). {@link readSetting} adds the rest. */
export class InvalidSettingError extends Error {
  override readonly name = 'Refusal';
}

/** The setting's value, or undefined when it is unset or empty (decisions 1.2). Throws {@link ConfigError} naming it. */
export function readSetting<T>(env: NodeJS.ProcessEnv, name: string, setting: Setting<T>): T | undefined {
  const text = env[name];
  if (text === undefined || text === '') return undefined;
  try {
    return setting.parse(text);
  } catch (error) {
    if (!(error instanceof InvalidSettingError)) throw error;
    const subject = setting.secret === true ? 'the value' : quote(text);
    throw new ConfigError(`${name}: ${subject} ${error.message}; accepted: ${setting.accepts}`);
  }
}

const LONGEST_QUOTE = 120;

/** A text from outside made fit for a one-line message: quoted, escaped, cut, without the credentials of a URL. */
export function quote(text: string): string {
  const shown = text.replace(/\/\/[^/?#\s]*@/g, '//***@');
  return JSON.stringify(shown.length > LONGEST_QUOTE ? `${shown.slice(0, LONGEST_QUOTE)}...` : shown);
}

/** A whole number from `min` to `max`, both included, in plain decimal digits. */
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

/** Exactly one of the given words. */
export function oneOf<const T extends string>(...words: readonly T[]): Setting<T> {
  return {
    accepts: words.map((word) => `"${word}"`).join(' or '),
    parse: (text) => {
      const found = words.find((word) => word === text);
      if (found === undefined) throw new InvalidSettingError('is not known');
      return found;
    },
  };
}

/** A path, taken as it is; whether something is there is for its reader to see. */
export const path: Setting<string> = { accepts: 'a path', parse: (text) => text };

const KEY_BYTES = 32;

/** A key of 32 bytes in hex or base64 (either alphabet, padding optional). */
export const key: Setting<Buffer> = {
  accepts: `${KEY_BYTES} bytes in base64 (44 characters) or hex (64 digits), as of: openssl rand -base64 ${KEY_BYTES}`,
  secret: true,
  parse: (text) => {
    if (/^[0-9a-f]{64}$/i.test(text)) return Buffer.from(text, 'hex');
    if (/^[A-Za-z0-9+/_-]{43}=?$/.test(text)) return Buffer.from(text, 'base64');
    throw new InvalidSettingError(`is not a key of ${KEY_BYTES} bytes (it has ${text.length} characters)`);
  },
};

/** The trimmed, non-empty items of a comma list. */
export function commaList(text: string): string[] {
  return text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');
}
