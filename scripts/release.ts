// `npm run release [-- --dry-run] [folder]`: makes everything that a release consists of: the tarball, its SBOM (CycloneDX)
// with the packages of the web console, the licenses of all packages, the release notes from CHANGELOG.md, image tags and
// checksums. Without --dry-run, it requires a clean working tree and a dated section of the change log, and creates the tag.
// It publishes nothing.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { imageTags, releaseNotes } from './release/changelog.ts';
import { disallowed, shippedPackages } from './release/licenses.ts';
import { createSbom } from './release/sbom.ts';

const ROOT = join(import.meta.dirname, '..');

const { values, positionals } = parseArgs({ allowPositionals: true, options: { 'dry-run': { type: 'boolean' } } });
const isDryRun = values['dry-run'] === true;
const target = resolve(positionals[0] ?? join(ROOT, 'dist/release'));

const read = (path: string): Promise<string> => readFile(join(ROOT, path), 'utf8');
const run = (command: string, ...args: string[]): string =>
  execFileSync(command, args, { cwd: ROOT, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] }).trim();

const version = await commonVersion();
const notes = releaseNotes(await read('CHANGELOG.md'), version);
const packages = shippedPackages(JSON.parse(await read('package-lock.json')));
const rejected = disallowed(packages);
if (rejected.length > 0) {
  const list = rejected.map(({ name, version, license = 'no license' }) => `${name}@${version}: ${license}`);
  fail(`packages whose license is not allowed (scripts/release/licenses.ts):\n  ${list.join('\n  ')}`);
}
if (!isDryRun) {
  if (run('git', 'status', '--porcelain') !== '') fail('the working tree has changes: commit them first');
  if (notes.date === undefined) fail(`CHANGELOG.md has no section "[${version}] - YYYY-MM-DD"`);
}

await rm(target, { recursive: true, force: true });
await mkdir(target, { recursive: true });
run(process.execPath, 'scripts/admin.mjs', '--if-changed');
run(process.execPath, 'scripts/pack.ts', target);
await writeFile(join(target, `sluice-${version}.cdx.json`), createSbom(version, packages));
const licenses = packages.map(({ name, version, license }) => ({ name, version, license }));
await writeFile(join(target, 'licenses.json'), `${JSON.stringify(licenses, null, 2)}\n`);
await writeFile(join(target, 'release-notes.md'), notes.text);
await writeFile(join(target, 'image-tags.txt'), `${imageTags(version).join('\n')}\n`);
await writeChecksums();
if (!isDryRun) run('git', 'tag', '-a', `v${version}`, '-m', `Sluice ${version}`);
console.log(`${isDryRun ? 'dry run of' : 'made'} release ${version} in ${target}:`);
for (const name of (await readdir(target)).sort()) console.log(`  ${name}`);

/** The version, which all packages have in common. */
async function commonVersion(): Promise<string> {
  const names = (await readdir(join(ROOT, 'packages'))).map((name) => `packages/${name}/package.json`);
  const texts = await Promise.all(['package.json', ...names].map(read));
  const versions = new Set(texts.map((text) => String(JSON.parse(text).version)));
  const [first = '', ...others] = versions;
  if (others.length > 0) fail(`the packages have different versions: ${[...versions].join(', ')}`);
  return first;
}

/** Writes SHA256SUMS in the format of sha256sum. */
async function writeChecksums(): Promise<void> {
  const names = (await readdir(target)).sort();
  const lines = names.map(async (name) => {
    const hash = createHash('sha256').update(await readFile(join(target, name)));
    return `${hash.digest('hex')}  ${name}\n`;
  });
  await writeFile(join(target, 'SHA256SUMS'), (await Promise.all(lines)).join(''));
}

function fail(message: string): never {
  console.error(`release: ${message}`);
  process.exit(1);
}
