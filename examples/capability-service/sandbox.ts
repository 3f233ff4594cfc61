/** For JavaScript's objects, in mebibytes. */
const MAX_HEAP_MB = 128;

/**
 * What no flag of Node.js forbids, and code can do without: signals to others and their priority (the service is one of
 * them, and SIGUSR1 opens the debugger of a Node.js process); V8's flags and `process.report`, both of which write files;
 * certificates, read from wherever the environment says. Names that start with `_` are other ways to the same.
 */
const TAKEN = {
  process: ['kill', '_kill', '_debugProcess', 'report'],
  os: ['setPriority'],
  v8: ['setFlagsFromString'],
  tls: ['getCACertificates'],
};

/**
 * Takes away the above and sets the environment, from within. From without, NODE_OPTIONS would take back what
 * `--permission` forbids, and other variables would steer Node.js and the loader before the first line runs.
 */
const BEFORE_THE_CODE = `
  import { syncBuiltinESMExports } from 'node:module';
  const given = JSON.parse(process.env.GIVEN);
  delete process.env.GIVEN;
  for (const [name, taken] of Object.entries(${JSON.stringify(TAKEN)})) {
    const module = process.getBuiltinModule(name);
    for (const key of taken) delete module[key];
  }
  syncBuiltinESMExports();
  Object.assign(process.env, given);
`;

/**
 * The flags of a Node.js for code of others, which opens no file and no connection and starts nothing. That keeps
 * mistakes in, not attackers: the README says what else it takes. A Node.js that does not know one of them does not
 * start. The environment of the code goes into {@link environmentOf}.
 */
export const SANDBOX: readonly string[] = [
  '--permission',
  // node:sqlite reads and writes any file, for it does not ask for permission.
  '--no-experimental-sqlite',
  '--disable-sigusr1',
  `--max-old-space-size=${MAX_HEAP_MB}`,
  '--import',
  `data:text/javascript,${encodeURIComponent(BEFORE_THE_CODE)}`,
];

/** The environment to start it with, and nothing of the service's own. */
export function environmentOf(given: Readonly<Record<string, string>>): { readonly GIVEN: string } {
  return { GIVEN: JSON.stringify(given) };
}
