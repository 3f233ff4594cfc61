import { chmod, mkdir, open } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { Failure } from '../failure.ts';
import { errorCode, errorReason } from '../files/system-error.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { sanitizeLine } from '../terminal/text.ts';
import type { Credential } from './credential.ts';

/** Stored credentials per host, in a file that is readable by its owner only. */
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
  const credentialOf = async (hosts: StoredHosts, host: string): Promise<Credential | undefined> => {
    const stored = hosts.get(host);
    if (stored === undefined) return undefined;
    const { credential } = await import('./credential.ts');
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
      const { withLock } = await import('./file-lock.ts');
      return withLock(file, async () => {
        const hosts = await load(file);
        const known = hosts.delete(host);
        if (known) await save(file, hosts);
        return known;
      });
    },
    update: async (host, to) => {
      await createFolder(dirname(file));
      const { withLock } = await import('./file-lock.ts');
      return withLock(file, async () => {
        const hosts = await load(file);
        const before = await credentialOf(hosts, host);
        const after = await to(before);
        if (after === undefined || after === before) return after;
        // Rejects content that could not be parsed again.
        const { credential } = await import('./credential.ts');
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
    return await parse(file, await handle.readFile('utf8'));
  } finally {
    await handle.close();
  }
}

async function parse(file: string, text: string): Promise<StoredHosts> {
  // Loaded on demand, because the schemas load slowly and most computers have no such file.
  const { credentialsFile } = await import('./credential.ts');
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
  const { replaceFile } = await import('../files/replace-file.ts');
  const text = `${JSON.stringify({ version: 1, hosts: Object.fromEntries(hosts) }, null, 2)}\n`;
  await replaceFile(file, text).catch((error: unknown) => {
    throw writeFailure(file, error);
  });
}

function writeFailure(path: string, error: unknown): Failure {
  return new Failure(`${path}: cannot be written: ${errorReason(error) ?? error}`, { cause: error });
}
