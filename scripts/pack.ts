// `npm run pack [-- folder]`: makes one tarball with the command line, the service with its web console and the packages that
// they share, which installs anywhere: `npm install -g sluice-0.1.0.tgz`. Node.js strips no types in node_modules, so they
// are stripped here. With `--bundle`, it contains everything, Node.js included, and needs no registry: for machines of this
// platform.
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { stripTypeScriptTypes } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { z } from 'zod';

const ROOT = join(import.meta.dirname, '..');
/** Packages in the tarball, and their folders beside `src`. */
const PACKAGES = {
  actions: ['starter', 'types', 'wit'],
  cedar: [],
  cli: ['bin'],
  contract: [],
  protocol: [],
  server: ['proto'],
} as const;
/** Sources that are also input of the build of actions. */
const KEPT = /^actions\/src\/runtime\//;
const SKIPPED = /\.(?:test|fixture)\.ts$|\.snapshot\.txt$|(?:^|\/)(?:fixtures|testing)(?:\/|$)/;
/** Of a bundle, whose Node.js is for one platform. */
const PLATFORM = `${process.platform}-${process.arch}`;
/** Paths of manifests in a folder `node_modules`. */
const PACKAGE_FILE = /^(?:.*\/node_modules\/)?(?:@[^/]+\/)?[^/]+\/package\.json$/;
/** The built web console. In the tarball it has the same place relative to the service, which finds it there. */
const CONSOLE = join(ROOT, 'packages/admin/dist');

const manifestSchema = z.looseObject({
  name: z.string(),
  version: z.string(),
  dependencies: z.record(z.string(), z.string()).default({}),
  optionalDependencies: z.record(z.string(), z.string()).default({}),
  exports: z.unknown().optional(),
});

const lockSchema = z.looseObject({ packages: z.record(z.string(), z.looseObject({ link: z.boolean().optional() })) });

execFileSync(process.execPath, [join(ROOT, 'scripts/admin.mjs'), '--if-changed'], { stdio: 'inherit' });
const { values, positionals } = parseArgs({ options: { bundle: { type: 'boolean' } }, allowPositionals: true });
const target = resolve(positionals[0] ?? join(ROOT, 'dist'));
const stage = await mkdtemp(join(tmpdir(), 'sluice-pack-'));
try {
  const dependencies: Record<string, string> = {};
  const optionalDependencies: Record<string, string> = {};
  for (const [name, folders] of Object.entries(PACKAGES)) {
    const needed = await stagePackage(name, folders);
    Object.assign(dependencies, needed.dependencies);
    Object.assign(optionalDependencies, needed.optionalDependencies);
  }
  const { version, description, license, engines, overrides } = await readManifest(ROOT);
  await stageConsole();
  const own = [...Object.keys(PACKAGES), 'admin'].map((name) => `@sluice/${name}`);
  const external = Object.entries(dependencies).filter(([name]) => !own.includes(name));
  const manifest = {
    name: 'sluice',
    version,
    description,
    license,
    type: 'module',
    engines,
    bin: { sluice: 'bin/sluice.mjs' },
    files: ['bin', 'npm-shrinkwrap.json', 'README.md', 'LICENSE'],
    dependencies: Object.fromEntries([...external, ...own.map((name) => [name, version])].sort()),
    bundleDependencies: own,
    optionalDependencies,
    overrides,
  };
  await writeJson(join(stage, 'package.json'), manifest);
  await lockDependencies(own, version);
  await mkdir(join(stage, 'bin'));
  await writeFile(
    join(stage, 'bin/sluice.mjs'),
    "#!/usr/bin/env node\nimport '../node_modules/@sluice/cli/bin/sluice.mjs';\n",
    { mode: 0o755 },
  );
  for (const file of ['README.md', 'LICENSE']) await cp(join(ROOT, file), join(stage, file));
  if (values.bundle) await bundleDependencies(manifest);
  await mkdir(target, { recursive: true });
  const packed = execFileSync('npm', ['pack', '--silent', '--pack-destination', target], {
    cwd: stage,
    encoding: 'utf8',
  }).trim();
  const file = values.bundle ? packed.replace(/\.tgz$/, `-${PLATFORM}.tgz`) : packed;
  await rename(join(target, packed), join(target, file));
  console.log(join(target, file));
} finally {
  await rm(stage, { recursive: true });
}

/** Copies a package with its types stripped; returns what it needs. */
async function stagePackage(name: string, folders: readonly string[]) {
  const from = join(ROOT, 'packages', name);
  const to = join(stage, 'node_modules/@sluice', name);
  for (const folder of folders) await cp(join(from, folder), join(to, folder), { recursive: true });
  if (name === 'cli') {
    const bin = join(to, 'bin/sluice.mjs');
    await writeFile(bin, (await readFile(bin, 'utf8')).replace("'../src/main.ts'", "'../src/main.js'"));
  }
  for (const entry of await readdir(join(from, 'src'), { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    const inside = relative(from, path);
    if (!entry.isFile() || SKIPPED.test(inside)) continue;
    await mkdir(dirname(join(to, inside)), { recursive: true });
    const isSource = inside.endsWith('.ts') && !inside.endsWith('.d.ts');
    if (!isSource || KEPT.test(`${name}/${inside}`)) await cp(path, join(to, inside));
    if (isSource) {
      await writeFile(join(to, inside.replace(/\.ts$/, '.js')), toJavaScript(await readFile(path, 'utf8')));
    }
  }
  const { devDependencies: _none, dependencies, optionalDependencies, exports, ...manifest } = await readManifest(from);
  const exported: unknown = JSON.parse(JSON.stringify(exports ?? null).replaceAll(/(\.\/src\/[^"]*)\.ts"/g, '$1.js"'));
  // Without dependencies, which npm would expect inside of the bundle; the tarball itself has them.
  await writeJson(join(to, 'package.json'), { ...manifest, ...(exported !== null && { exports: exported }) });
  return { dependencies, optionalDependencies };
}

async function stageConsole(): Promise<void> {
  const { name, version, license } = await readManifest(join(ROOT, 'packages/admin'));
  const to = join(stage, 'node_modules', name);
  await cp(CONSOLE, join(to, 'dist'), { recursive: true });
  await writeJson(join(to, 'package.json'), { name, version, license });
}

/**
 * Writes `npm-shrinkwrap.json`: the versions of the repository's lock file, reduced by npm to those that the tarball needs. npm
 * installs exactly these where the tarball is unpacked. `npm install -g` of the tarball itself ignores both this file and
 * `overrides`, and installs the versions that the dependencies name.
 */
async function lockDependencies(own: readonly string[], version: string): Promise<void> {
  const lock = lockSchema.parse(JSON.parse(await readFile(join(ROOT, 'package-lock.json'), 'utf8')));
  const external = Object.entries(lock.packages).filter(
    ([path, { link }]) => path.startsWith('node_modules/') && !link,
  );
  const bundled = own.map((name) => [`node_modules/${name}`, { version, inBundle: true }]);
  await writeJson(join(stage, 'package-lock.json'), {
    ...lock,
    packages: Object.fromEntries([...bundled, ...external]),
  });
  execFileSync('npm', ['install', '--package-lock-only', '--ignore-scripts', '--prefer-offline', '--silent'], {
    cwd: stage,
  });
  await rename(join(stage, 'package-lock.json'), join(stage, 'npm-shrinkwrap.json'));
}

/**
 * Installs the locked dependencies into the stage, and declares them as part of the tarball. What is absent, such as the Node.js
 * of other platforms, is no dependency of anything then: npm would look for it in the registry.
 */
async function bundleDependencies(manifest: {
  readonly dependencies: Readonly<Record<string, string>>;
  readonly optionalDependencies: Readonly<Record<string, string>>;
}): Promise<void> {
  const install = ['ci', '--omit=dev', '--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund', '--silent'];
  // npm would replace the packages that are already in the stage.
  const own = join(stage, 'node_modules/@sluice');
  const saved = join(stage, 'saved');
  await rename(own, saved);
  const { dependencies, optionalDependencies } = manifest;
  const external = Object.entries(dependencies).filter(([name]) => !name.startsWith('@sluice/'));
  const lock = join(stage, 'npm-shrinkwrap.json');
  const locked = lockSchema.parse(JSON.parse(await readFile(lock, 'utf8')));
  const { dependencies: _root, bundleDependencies: _bundled, ...root } = locked.packages[''] ?? {};
  const others = Object.entries(locked.packages).filter(
    ([path]) => path !== '' && !path.startsWith('node_modules/@sluice/'),
  );
  const packages = { '': { ...root, dependencies: Object.fromEntries(external) }, ...Object.fromEntries(others) };
  await writeJson(lock, { ...locked, packages });
  await writeJson(join(stage, 'package.json'), {
    ...manifest,
    dependencies: Object.fromEntries(external),
    bundleDependencies: [],
  });
  execFileSync('npm', install, { cwd: stage, stdio: ['ignore', 'ignore', 'inherit'] });
  await rm(lock);
  await rename(saved, own);
  const modules = join(stage, 'node_modules');
  await rm(join(modules, '.package-lock.json'));
  await rm(join(modules, '.bin'), { recursive: true });
  for (const path of await packageFiles(modules)) await dropAbsent(path);
  const present = Object.entries(optionalDependencies).filter(([name]) => existsSync(join(modules, name)));
  const needed = { ...dependencies, ...Object.fromEntries(present) };
  await writeJson(join(stage, 'package.json'), {
    ...manifest,
    dependencies: needed,
    optionalDependencies: undefined,
    overrides: undefined,
    bundleDependencies: Object.keys(needed),
  });
}

/** The manifests of all packages in a folder `node_modules`, those inside of packages included. */
async function packageFiles(modules: string): Promise<string[]> {
  const found = await readdir(modules, { recursive: true });
  return found.filter((path) => PACKAGE_FILE.test(path)).map((path) => join(modules, path));
}

/** Removes the optional dependencies of a package that are not installed from its manifest. */
async function dropAbsent(path: string): Promise<void> {
  const text = await readFile(path, 'utf8');
  const manifest = z
    .looseObject({ optionalDependencies: z.record(z.string(), z.string()) })
    .safeParse(JSON.parse(text));
  if (!manifest.success) return;
  const isPresent = (name: string): boolean => {
    for (let folder = dirname(path); folder.startsWith(stage); folder = dirname(folder)) {
      if (existsSync(join(folder, 'node_modules', name))) return true;
    }
    return false;
  };
  const optional = Object.entries(manifest.data.optionalDependencies).filter(([name]) => isPresent(name));
  await writeJson(path, { ...manifest.data, optionalDependencies: Object.fromEntries(optional) });
}

/** Strips the types, and refers to the other sources by their new names. */
function toJavaScript(source: string): string {
  return stripTypeScriptTypes(source)
    .replaceAll(/(['"]\.{1,2}\/(?!starter\/|types\/)(?:\.\.\/)*(?!starter\/|types\/)[^'"\n]*)\.ts(?=['"])/g, '$1.js')
    .replaceAll('/main.ts`', '/main.js`');
}

async function readManifest(folder: string) {
  return manifestSchema.parse(JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')));
}

async function writeJson(path: string, value: object): Promise<void> {
  await writeFile(path, `${JSON.stringify(value, null, 2)}\n`);
}
