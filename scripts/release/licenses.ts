import { z } from 'zod';

/** Licenses of packages that may be shipped, as SPDX expressions. All of them allow it with the notice that packages have. */
const ALLOWED: ReadonlySet<string> = new Set([
  '0BSD',
  'Apache-2.0',
  'Apache-2.0 WITH LLVM-exception',
  'BlueOak-1.0.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'ISC',
  'MIT',
  'MPL-2.0 OR Apache-2.0',
  // The font of the console.
  'OFL-1.1',
  'Unlicense',
]);

/** Packages that the tarball contains or depends on. */
const SHIPPED = ['actions', 'cedar', 'cli', 'contract', 'protocol', 'server'].map((name) => `packages/${name}`);
/** The web console, whose packages are bundled, and those that only build it. */
const CONSOLE = 'packages/admin';
const BUILD_TOOLS = /^(?:vite|sass|@vitejs\/.*|@types\/.*)$/;

const dependencies = z.record(z.string(), z.string()).default({});
const lockSchema = z.object({
  packages: z.record(
    z.string(),
    z.object({
      version: z.string().optional(),
      license: z.string().optional(),
      integrity: z.string().optional(),
      link: z.boolean().optional(),
      dependencies,
      devDependencies: dependencies,
      optionalDependencies: dependencies,
    }),
  ),
});

/** A package that users get. */
export interface ShippedPackage {
  readonly name: string;
  readonly version: string;
  /** SPDX expression; undefined if the package names none. */
  readonly license: string | undefined;
  /** Checksum of its tarball, `sha512-<base64>`. */
  readonly integrity: string | undefined;
}

/** Returns all packages of others that a release contains or installs, by the lock file. */
export function shippedPackages(lockFile: unknown): ShippedPackage[] {
  const { packages } = lockSchema.parse(lockFile);
  const found = new Map<string, ShippedPackage>();
  const waiting: string[] = [];
  const add = (from: string, names: Iterable<string>): void => {
    for (const name of names) {
      const path = resolve(packages, from, name);
      // npm installs no optional package of another platform.
      if (path === undefined || found.has(path)) continue;
      const { version = '', license, integrity, link } = packages[path] ?? {};
      if (link) continue;
      found.set(path, { name, version, license: license?.replace(/^\((.*)\)$/, '$1'), integrity });
      waiting.push(path);
    }
  };
  const addNeeded = (path: string): void => {
    const entry = packages[path];
    add(path, [...Object.keys(entry?.dependencies ?? {}), ...Object.keys(entry?.optionalDependencies ?? {})]);
  };
  SHIPPED.forEach(addNeeded);
  const bundled = Object.keys(packages[CONSOLE]?.devDependencies ?? {}).filter((name) => !BUILD_TOOLS.test(name));
  add(CONSOLE, bundled);
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) addNeeded(path);
  // A version may be installed in several folders.
  const unique = new Map([...found.values()].map((each) => [`${each.name}@${each.version}`, each]));
  return [...unique].sort(([a], [b]) => a.localeCompare(b)).map(([, each]) => each);
}

/** Finds a package as Node.js does: beside the one that needs it, then upwards. */
function resolve(packages: object, from: string, name: string): string | undefined {
  for (let folder = from; ; folder = folder.replace(/(?:^|\/)(?:node_modules\/)?(?:@[^/]+\/)?[^/]+$/, '')) {
    const path = folder === '' ? `node_modules/${name}` : `${folder}/node_modules/${name}`;
    if (path in packages) return path;
    if (folder === '') return undefined;
  }
}

/** Returns the packages whose license is not in the list of allowed ones. */
export function disallowed(packages: readonly ShippedPackage[]): ShippedPackage[] {
  return packages.filter(({ license = '' }) => !ALLOWED.has(license));
}
