import { chmod, mkdir, open } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { Failure } from '../failure.ts';
import { replaceFile } from '../files/replace-file.ts';
import { errorCode, errorReason } from '../files/system-error.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { withLock } from './file-lock.ts';

/** The last one that has a date, in milliseconds since 1970. */
const LAST_DATE = 8.64e15;

/** An access token that somebody handed over: nothing is known of it. */
const apiToken = z.object({ kind: z.literal('token'), token: z.string() });

/** What a log-in at an identity provider gave, and what it takes to renew it. */
const login = z.object({
  kind: z.literal('login'),
  accessToken: z.string(),
  refreshToken: z.string().optional(),
  /** When the access token expires, in milliseconds since 1970; undefined when it was not said. */
  expiresAt: z.number().min(0).max(LAST_DATE).optional(),
  username: z.string(),
  authServer: z.string(),
  realm: z.string(),
  clientId: z.string(),
  clientSecret: z.string().optional(),
});

/** Credentials for one host. */
export const credential = z.discriminatedUnion('kind', [apiToken, login]);

/** The file of credentials: by host, as `--host` is spelled after parsing. Each is a {@link credential}, or damaged. */
export const credentialsFile = z.object({ version: z.literal(1), hosts: z.record(z.string(), z.unknown()) });

export type Login = z.infer<typeof login>;
export type Credential = z.infer<typeof credential>;

/** Stored credentials, per host, in a file that only its owner can read (decisions 1.8). */
export interface CredentialStore {
  /** Where they are. */
  readonly file: string;
  readonly get: (host: string) => Promise<Credential | undefined>;
  /** Forgets what is stored for a host, damaged or not. Resolves with whether there was anything. */
  readonly remove: (host: string) => Promise<boolean>;
  /**
   * Replaces what is stored for a host by what is made of it. Other commands wait meanwhile, so that
   * of two that renew a log-in at once the second one sees the first one's: a refresh token may be good for one use, and
   * using it twice ends the log-in at many identity providers. Resolves with what is stored then.
   */
  readonly update: (
    host: string,
    to: (stored: Credential | undefined) => Promise<Credential | undefined> | Credential,
  ) => Promise<Credential | undefined>;
}

/** As they stand in the file, so that what is damaged stays as it is until it is replaced. */
type StoredHosts = Map<string, unknown>;

/**
 * The store in `$XDG_CONFIG_HOME/sluice/credentials.json`. A file that is damaged, or that others may read, is refused
 * with a `Failure` that names it; its content is in no message. What is damaged of one host is told and passed over.
 */
export function openCredentialStore({ env, stderr }: Pick<Terminal, 'env' | 'stderr'>): CredentialStore {
  const config = env.XDG_CONFIG_HOME || join(env.HOME || homedir(), '.config');
  const file = join(config, 'sluice', 'credentials.json');
  const credentialOf = (hosts: StoredHosts, host: string): Credential | undefined => {
    const stored = hosts.get(host);
    if (stored === undefined) return undefined;
    const { success, data } = credential.safeParse(stored);
    if (!success) stderr.write(`warning: ${file}: what is stored for ${host} is damaged: log in anew\n`);
    return data;
  };
  return {
    file,
    get: async (host) => credentialOf(await load(file), host),
    remove: async (host) => {
      if (!(await load(file)).has(host)) return false;
      return withLock(file, async () => {
        const hosts = await load(file);
        const known = hosts.delete(host);
        if (known) await save(file, hosts);
        return known;
      });
    },
    update: async (host, to) => {
      await createFolder(dirname(file));
      return withLock(file, async () => {
        const hosts = await load(file);
        const before = credentialOf(hosts, host);
        const after = await to(before);
        if (after === undefined || after === before) return after;
        // Nothing is stored that would not be read again.
        hosts.set(host, credential.parse(after));
        await save(file, hosts);
        return after;
      });
    },
  };
}

async function load(file: string): Promise<StoredHosts> {
  const handle = await open(file).catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw new Failure(`${file}: cannot be read: ${errorReason(error) ?? error}`, { cause: error });
  });
  if (handle === undefined) return new Map();
  try {
    const { mode } = await handle.stat();
    if ((mode & 0o077) !== 0) {
      const octal = (mode & 0o777).toString(8).padStart(4, '0');
      throw new Failure(`${file}: others may read it (mode ${octal}): chmod 600 ${file}, and log in anew`);
    }
    return parse(file, await handle.readFile('utf8'));
  } finally {
    await handle.close();
  }
}

function parse(file: string, text: string): StoredHosts {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = undefined;
  }
  const { success, data } = credentialsFile.safeParse(value);
  if (!success) throw new Failure(`${file}: is damaged or of another version: delete it, and log in anew`);
  return new Map(Object.entries(data.hosts));
}

async function createFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await chmod(folder, 0o700);
  } catch (error) {
    throw writeFailure(folder, error);
  }
}

async function save(file: string, hosts: StoredHosts): Promise<void> {
  const text = `${JSON.stringify({ version: 1, hosts: Object.fromEntries(hosts) }, null, 2)}\n`;
  await replaceFile(file, text).catch((error: unknown) => {
    throw writeFailure(file, error);
  });
}

function writeFailure(path: string, error: unknown): Failure {
  return new Failure(`${path}: cannot be written: ${errorReason(error) ?? error}`, { cause: error });
}
