import { chmod, mkdir, open } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { Failure } from '../failure.ts';
import { replaceFile } from '../files/replace-file.ts';
import { errorCode, errorReason } from '../files/system-error.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { sanitizeLine } from '../terminal/text.ts';
import { withLock } from './file-lock.ts';

/** Latest valid date, in milliseconds since 1970. */
const LAST_DATE = 8.64e15;

/** An access token from elsewhere. */
const apiToken = z.object({ kind: z.literal('token'), token: z.string() });

/** Result of a login at an identity provider, and the data to renew it. */
const login = z.object({
  kind: z.literal('login'),
  accessToken: z.string(),
  refreshToken: z.string().optional(),
  /** Expiry of the access token in milliseconds since 1970; undefined when unknown. */
  expiresAt: z.number().min(0).max(LAST_DATE).optional(),
  username: z.string(),
  authServer: z.string(),
  realm: z.string(),
  clientId: z.string(),
  clientSecret: z.string().optional(),
  /** The login is of the client itself and is renewed with its secret. */
  grant: z.literal('client_credentials').optional(),
});

/** Credentials for one host. */
export const credential = z.discriminatedUnion('kind', [apiToken, login]);

/** Credentials file: by host, in the normalized form of `--host`. Values are {@link credential} or corrupt. */
const credentialsFile = z.object({ version: z.literal(1), hosts: z.record(z.string(), z.unknown()) });

export type Login = z.infer<typeof login>;
export type Credential = z.infer<typeof credential>;

/** Stored credentials per host, in a file that is readable by its owner only (decisions 1.8). */
export interface CredentialStore {
  /** Path of the file. */
  readonly file: string;
  readonly get: (host: string) => Promise<Credential | undefined>;
  /** Deletes the credentials of a host, even when corrupt. Resolves with whether there were any. */
  readonly remove: (host: string) => Promise<boolean>;
  /**
   * Replaces the credentials of a host under a lock and resolves with the stored ones. Two commands that renew a login
   * at once must not both use the refresh token: it may be valid only once, and a second use ends the login at many
   * identity providers.
   */
  readonly update: (
    host: string,
    to: (stored: Credential | undefined) => Promise<Credential | undefined> | Credential,
  ) => Promise<Credential | undefined>;
}

/** Unparsed, so that corrupt entries stay unchanged until they are replaced. */
type StoredHosts = Map<string, unknown>;

/**
 * Opens the store in `$XDG_CONFIG_HOME/sluice/credentials.json`. Throws `Failure` for a file that is corrupt or
 * readable by others, without its content; a corrupt entry of one host only causes a warning.
 */
export function openCredentialStore({ env, stderr }: Pick<Terminal, 'env' | 'stderr'>): CredentialStore {
  const config = env.XDG_CONFIG_HOME || join(env.HOME || homedir(), '.config');
  const file = join(config, 'sluice', 'credentials.json');
  const credentialOf = (hosts: StoredHosts, host: string): Credential | undefined => {
    const stored = hosts.get(host);
    if (stored === undefined) return undefined;
    const { success, data } = credential.safeParse(stored);
    if (!success)
      stderr.write(
        `warning: ${sanitizeLine(`${file}: the credentials stored for ${host}`)} are corrupt: log in again\n`,
      );
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
        // Rejects content that could not be parsed again.
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
      throw new Failure(`${file}: readable by others (mode ${octal}): run "chmod 600 ${file}" and log in again`);
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
  if (!success) throw new Failure(`${file}: corrupt, or of another version: delete the file and log in again`);
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
