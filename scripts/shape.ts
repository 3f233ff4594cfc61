// Prints the shape of the source: folders, file sizes, imports that violate the order of the folders and import cycles.
// `--check` fails when a limit is exceeded (`npm run check`).
import { join } from 'node:path';
import { importCycles, readSourceFiles, sizesOf, upwardImports } from './shape/source-files.ts';

/** Limits of `--check`. */
const LIMITS = { median: [120, 220], p90: 450, tinyShare: 0.06 } as const;

const packages = join(import.meta.dirname, '../packages');
const server = await readSourceFiles(join(packages, 'server/src'));
const protocol = await readSourceFiles(join(packages, 'protocol/src'));
const problems: string[] = [];

const folders = [...new Set(server.map(({ path }) => path.split('/')[0] ?? ''))];
console.log('packages/server/src: files and lines by folder');
for (const folder of folders) {
  const { files, lines } = sizesOf(server.filter(({ path }) => path.split('/')[0] === folder));
  console.log(`  ${folder.padEnd(12)} ${String(files).padStart(4)} ${String(lines).padStart(7)}`);
}
for (const [name, files] of [
  ['packages/server/src', server],
  ['packages/protocol/src', protocol],
] as const) {
  const { files: count, lines, median, p90, tiny, huge } = sizesOf(files);
  console.log(`${name}: ${count} files, ${lines} lines, median ${median}, p90 ${p90}, below 25 lines: ${tiny}`);
  if (huge.length > 0) console.log(`  above 600 lines: ${huge.join(', ')}`);
  if (files !== server) continue;
  const [least, most] = LIMITS.median;
  if (median < least || median > most)
    problems.push(`the median file has ${median} lines: expected ${least} to ${most}`);
  if (p90 > LIMITS.p90) problems.push(`a tenth of the files has more than ${p90} lines: at most ${LIMITS.p90} allowed`);
  if (tiny / count > LIMITS.tinyShare) problems.push(`${tiny} of ${count} files have fewer than 25 lines`);
}

const upward = upwardImports(server);
console.log(`imports against the order of the folders: ${upward.length}`);
const cycles = [...importCycles(server), ...importCycles(protocol)];
console.log(`import cycles, type imports included: ${cycles.length}`);
problems.push(...upward.map((line) => `import against the order of the folders: ${line}`));
problems.push(...cycles.map((cycle) => `import cycle: ${cycle.join(', ')}`));

if (process.argv.includes('--check')) {
  for (const problem of problems) console.error(problem);
  if (problems.length > 0) process.exitCode = 1;
} else if (process.argv.includes('--problems')) console.log(problems.join('\n'));
