import { randomBytes } from 'node:crypto';
import { chmod, mkdir, open, rename, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { Failure } from '../failure.ts';
import { type Credential, credentialsFile } from './credentials.ts';
import { withLock } from './file-lock.ts';

/** Stored credentials, per host, in a file that only its owner can read (decisions 1.8). */
export interface CredentialStore {
  /** Where they are. */
  readonly file: string;
  readonly get: (host: string) => Promise<Credential | undefined>;
  /**
   * Replaces what is stored for a host by what is made of it; undefined removes it. Other commands wait meanwhile, so that
   * of two that renew a log-in at once the second one sees the first one's: a refresh token may be good for one use, and
   * using it twice ends the log-in at many identity providers. Resolves with what is stored then.
   */
  readonly change: (
    host: string,
    to: (stored: Credential | undefined) => Promise<Credential | undefined> | Credential | undefined,
  ) => Promise<Credential | undefined>;
}

type Hosts = Map<string, Credential>;

/**
 * The store in `$XDG_CONFIG_HOME/sluice/credentials.json`. A file that is damaged, or that others may read, is refused
 * with a `Failure` that names it; its content is in no message.
 */
export function credentialStore(env: Readonly<Record<string, string | undefined>>): CredentialStore {
  const config = env.XDG_CONFIG_HOME || join(env.HOME || homedir(), '.config');
  const file = join(config, 'sluice', 'credentials.json');
  return {
    file,
    get: async (host) => (await load(file)).get(host),
    change: async (host, to) => {
      await makeFolder(dirname(file));
      return withLock(file, async () => {
        const hosts = await load(file);
        const before = hosts.get(host);
        const after = await to(before);
        if (after === before) return after;
        if (after === undefined) hosts.delete(host);
        else hosts.set(host, after);
        await save(file, hosts);
        return after;
      });
    },
  };
}

async function load(file: string): Promise<Hosts> {
  const handle = await open(file).catch((error: unknown) => {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw new Failure(`${file}: cannot be read`, { cause: error });
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

function parse(file: string, text: string): Hosts {
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

async function makeFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await chmod(folder, 0o700);
  } catch (error) {
    throw notWritable(folder, error);
  }
}

/** Written beside and renamed: whoever reads sees the old file or the new one. */
async function save(file: string, hosts: Hosts): Promise<void> {
  const beside = `${file}.${randomBytes(6).toString('hex')}`;
  try {
    const handle = await open(beside, 'wx', 0o600);
    try {
      await handle.writeFile(`${JSON.stringify({ version: 1, hosts: Object.fromEntries(hosts) }, null, 2)}\n`);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(beside, file);
  } catch (error) {
    await rm(beside, { force: true });
    throw notWritable(file, error);
  }
}

function notWritable(path: string, error: unknown): Failure {
  return new Failure(`${path}: cannot be written (${error instanceof Error ? error.message : error})`, {
    cause: error,
  });
}
