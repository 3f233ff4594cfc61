import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { isSecretVariable, parseReferences, type SecretReference } from '@sluice/contract';
import { commaList, InvalidSettingError, quote, textSchema } from '../settings.ts';
import { ContainedFileError, readContainedFile } from './contained-file.ts';

/** Settings of references to secrets. */
export interface SecretSettings {
  /** Environment of the process. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Folder of the files that references name (SERVICE_SECRETS_PATH). */
  readonly folder: string | undefined;
  /** Origins that secrets are bound to, by name of the variable or file (SERVICE_SECRET_ORIGINS). */
  readonly origins: ReadonlyMap<string, ReadonlySet<string>>;
}

/** Value of SERVICE_SECRET_ORIGINS: `NAME=origin,…`, a name several times for several origins. */
export const secretOrigins = textSchema(
  'a comma-separated list of NAME=origin, such as SERVICE_SECRET_CRM=https://crm.example.com',
  (text): SecretSettings['origins'] => {
    const origins = new Map<string, Set<string>>();
    for (const item of commaList(text)) {
      const at = item.indexOf('=');
      const name = item.slice(0, Math.max(at, 0)).trim();
      const origin = URL.parse(item.slice(at + 1).trim());
      if (name === '') throw new InvalidSettingError(`has no name in ${quote(item)}`);
      if (!origin || !/^https?:$/.test(origin.protocol) || `${origin.origin}/` !== origin.href) {
        throw new InvalidSettingError(`has no http or https origin in ${quote(item)}`);
      }
      origins.getOrInsertComputed(name, () => new Set()).add(origin.origin);
    }
    return origins;
  },
);

/** A text without its references, or why it has none. Problems name references, never values. */
export type Resolved =
  | {
      readonly text: string;
      /** Values of the references. */
      readonly secrets: readonly string[];
      /** Milliseconds of `performance.now()` when its oldest file was read; Infinity without files. */
      readonly readAt: number;
    }
  | { readonly problem: string };

/** Longest text with its references resolved. */
const MAX_LENGTH = 8_192;

/** Content of a secret's file, or why there is none: a predicate, such as "is not a regular file". */
interface SecretFileContent {
  readonly value?: string;
  readonly problem?: string;
  /** Milliseconds of `performance.now()`. */
  readonly readAt: number;
}

/** Time for which a content is used. */
export const SECRET_FILE_MS = 1_000;

/** Longest value and its line break. */
const MAX_FILE_BYTES = MAX_LENGTH + 2;

const FILE_PROBLEMS = {
  outside: 'is a link to a file outside of SERVICE_SECRETS_PATH',
  'not-a-file': 'is not a regular file',
  'too-large': `has more than ${MAX_LENGTH} bytes`,
  replaced: 'was replaced while it was read',
} as const;

/** Reads a file in the folder for secrets: a regular file, with links resolved, as Kubernetes mounts secrets. Never rejects. */
async function readSecretFile(folder: string, name: string): Promise<SecretFileContent> {
  const readAt = performance.now();
  try {
    return { value: (await readContainedFile(join(folder, name), folder, MAX_FILE_BYTES)).toString('latin1'), readAt };
  } catch (error) {
    if (error instanceof ContainedFileError) return { problem: FILE_PROBLEMS[error.problem], readAt };
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'UNKNOWN';
    return { problem: code === 'ENOENT' ? 'does not exist' : `cannot be read (${code})`, readAt };
  }
}

/** Resolves references to secrets. Files are read off the event loop, each at most once a second. */
export class Secrets {
  readonly #settings: SecretSettings;
  /** Contents of files by name, and until when they are used. */
  readonly #files = new Map<string, { until: number; readonly content: Promise<SecretFileContent> }>();

  /** By default there are no secrets. */
  constructor(settings: SecretSettings = { env: {}, folder: undefined, origins: new Map() }) {
    this.#settings = settings;
  }

  /**
   * Returns why a text must not be sent to an origin: it refers to files without a folder for them, or to secrets that are
   * bound to other origins. Undefined if nothing is wrong with its references; their values are not read.
   */
  problem(text: string, origin: string): string | undefined {
    for (const reference of referencesIn(text)) {
      if (reference.kind === 'file' && this.#settings.folder === undefined) {
        return `refers to ${reference.text}, but SERVICE_SECRETS_PATH is not set`;
      }
      const bound = this.#settings.origins.get(reference.name);
      if (bound && !bound.has(origin)) {
        return `refers to ${reference.text}, which SERVICE_SECRET_ORIGINS binds to ${[...bound].join(', ')} and not to ${origin}`;
      }
    }
    return undefined;
  }

  /**
   * Returns the names of variables and files that headers may refer to and that are bound to no origin: everybody who can register
   * a forward can have them sent anywhere.
   */
  async unbound(): Promise<string[]> {
    const { env, folder, origins } = this.#settings;
    const variables = Object.keys(env).filter((name) => isSecretVariable(name) && env[name] !== '');
    // The names of a folder may be unreadable although its files are not.
    const entries = folder === undefined ? [] : await readdir(folder, { withFileTypes: true }).catch(() => []);
    // Kubernetes has links beside the files, such as ..data.
    const files = entries.filter((entry) => !entry.isDirectory() && !entry.name.startsWith('..'));
    return [...variables, ...files.map(({ name }) => name)].filter((name) => !origins.has(name)).sort();
  }

  /**
   * Resolves a text; a promise if it refers to files, which never rejects. A text without references is returned as it is.
   * `origin` is where the text is to be sent.
   */
  resolve(text: string, origin: string): Resolved | Promise<Resolved> {
    const problem = this.problem(text, origin);
    if (problem !== undefined) return { problem };
    const names = referencesIn(text).flatMap(({ kind, name }) => (kind === 'file' ? [name] : []));
    return names.length === 0
      ? this.#combine(text, new Map())
      : this.#read(names).then((files) => this.#combine(text, files));
  }

  async #read(names: readonly string[]): Promise<Map<string, SecretFileContent>> {
    const files = new Map<string, SecretFileContent>();
    for (const name of names) files.set(name, await this.#contentOf(name));
    return files;
  }

  #contentOf(name: string): Promise<SecretFileContent> {
    const known = this.#files.get(name);
    if (known && performance.now() < known.until) return known.content;
    const { folder = '' } = this.#settings;
    const file = { until: Number.POSITIVE_INFINITY, content: readSecretFile(folder, name) };
    this.#files.set(name, file);
    void file.content.then(({ readAt }) => {
      file.until = readAt + SECRET_FILE_MS;
    });
    return file.content;
  }

  #combine(text: string, files: ReadonlyMap<string, SecretFileContent>): Resolved {
    let resolved = '';
    let readAt = Number.POSITIVE_INFINITY;
    const secrets: string[] = [];
    for (const part of parseReferences(text) ?? [text]) {
      if (typeof part === 'string') {
        resolved += part;
        continue;
      }
      const file = files.get(part.name);
      const value = part.kind === 'env' ? this.#settings.env[part.name] : file?.value;
      const problem = value === undefined ? (file?.problem ?? 'is not set') : valueProblem(trimLineBreak(value));
      if (problem !== undefined || value === undefined) return { problem: `refers to ${part.text}, which ${problem}` };
      const secret = trimLineBreak(value);
      secrets.push(secret);
      resolved += secret;
      readAt = Math.min(readAt, file?.readAt ?? readAt);
    }
    if (resolved.length > MAX_LENGTH) return { problem: `has more than ${MAX_LENGTH} characters with its secrets` };
    return { text: resolved, secrets, readAt };
  }
}

/** References in a text; none in a malformed one. */
export function referencesIn(text: string): SecretReference[] {
  return (parseReferences(text) ?? []).filter((part) => typeof part !== 'string');
}

/** Editors and `echo` end a file with a line break. */
function trimLineBreak(value: string): string {
  return value.replace(/\r?\n$/, '');
}

/** What is wrong with the value of a secret, as a predicate. */
function valueProblem(value: string): string | undefined {
  if (value === '') return 'is empty';
  if (value.length > MAX_LENGTH) return `has more than ${MAX_LENGTH} bytes`;
  if (/^[!-~](?:[ -~]*[!-~])?$/.test(value)) return undefined;
  return /[\r\n]/.test(value) ? 'has several lines' : 'is not printable ASCII without spaces at its ends';
}
