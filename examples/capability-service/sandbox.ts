/** Heap limit in MiB. */
const MAX_HEAP_MB = 128;

/**
 * Functions that no flag disables: signals and priorities of other processes (SIGUSR1 opens the service's debugger), V8
 * flags and `process.report`, which write files, and certificates, which are read from paths in the environment. Names
 * with `_` are internal equivalents.
 */
const REMOVED = {
  process: ['kill', '_kill', '_debugProcess', 'report'],
  os: ['setPriority'],
  v8: ['setFlagsFromString'],
  tls: ['getCACertificates'],
};

/**
 * Removes these functions and sets the environment inside the process. Set from outside, NODE_OPTIONS could revoke
 * `--permission`, and other variables could control Node.js and the loader at startup.
 */
const PRELUDE = `
  import { syncBuiltinESMExports } from 'node:module';
  const given = JSON.parse(process.env.GIVEN);
  delete process.env.GIVEN;
  for (const [name, removed] of Object.entries(${JSON.stringify(REMOVED)})) {
    const module = process.getBuiltinModule(name);
    for (const key of removed) delete module[key];
  }
  syncBuiltinESMExports();
  Object.assign(process.env, given);
`;

/**
 * Node.js flags for untrusted code: no files, connections or processes. This contains mistakes, not attackers, see
 * README.md. Node.js does not start if it does not support a flag. Pass the environment with {@link sandboxEnvironment}.
 */
export const SANDBOX_FLAGS: readonly string[] = [
  '--permission',
  // node:sqlite ignores --permission for files.
  '--no-experimental-sqlite',
  '--disable-sigusr1',
  `--max-old-space-size=${MAX_HEAP_MB}`,
  '--import',
  `data:text/javascript,${encodeURIComponent(PRELUDE)}`,
];

/** Returns the environment of the process, without that of the service. */
export function sandboxEnvironment(given: Readonly<Record<string, string>>): { readonly GIVEN: string } {
  return { GIVEN: JSON.stringify(given) };
}
