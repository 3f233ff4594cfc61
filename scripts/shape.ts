// Prints the shape of the source: folders, file sizes, imports that violate the order of the folders and import cycles.
// `--check` fails when a limit is exceeded (`npm run check`). `--total` prints the lines of the service, and `--call` the
// functions and types on the path of a tool call; it fails if one is beyond the limits that is not in `call-exceptions.json`.
import { join } from 'node:path';
import {
  importCycles,
  MAX_LINES,
  readServiceFiles,
  readSourceFiles,
  type SourceFile,
  sizesOf,
  upwardImports,
} from './shape/source-files.ts';

/** Limits of `--check`. A change that adds to what the service does may raise that of the total. */
const LIMITS = { median: [120, 220], p90: 450, tinyShare: 0.06, total: 73_300 } as const;
/** Limits of files and lines of folders that grow easily, relative to `packages/server/src`. */
const FOLDERS: Readonly<Record<string, { readonly files: number; readonly lines: number }>> = {
  'upstreams/mcp/tasks/': { files: 12, lines: 3_100 },
};

const ROOT = join(import.meta.dirname, '..');
const PACKAGES = join(ROOT, 'packages');
function printFolders(files: readonly SourceFile[], folderOf: (path: string) => string): void {
  for (const [folder, inside] of Map.groupBy(files, ({ path }) => folderOf(path))) {
    const { files: count, lines } = sizesOf(inside);
    console.log(`  ${folder.padEnd(24)} ${String(count).padStart(4)} ${String(lines).padStart(7)}`);
  }
}

async function printTotal(): Promise<void> {
  const files = await readServiceFiles(PACKAGES);
  console.log('files and lines by folder, without tests, fixtures and generated code');
  printFolders(files, (path) => path.split('/').slice(0, 3).join('/'));
  console.log(`total: ${sizesOf(files).lines}`);
}

async function printCallPath(): Promise<void> {
  // Both start processes: other forms of this command do not wait for them.
  const { functionsOfCall } = await import('./shape/executed-functions.ts');
  const { CALL_LIMITS, callPath, excess } = await import('./shape/call-path.ts');
  const { default: exceptions } = await import('./shape/call-exceptions.json', { with: { type: 'json' } });
  const { functions, types } = callPath(ROOT, await functionsOfCall());
  for (const [what, counted, limit, allowed] of [
    ['functions and their parameters', functions, CALL_LIMITS.parameters, exceptions.functions],
    ['types and their members', types, CALL_LIMITS.members, exceptions.types],
  ] as const) {
    const beyond = counted.filter(({ count }) => count > limit).length;
    console.log(`${what}: ${counted.length}, of which ${beyond} have more than ${limit}`);
    for (const { place, count } of counted) console.log(`  ${String(count).padStart(3)} ${place}`);
    const problems = excess(counted, limit, allowed);
    for (const problem of problems) console.error(problem);
    if (problems.length > 0) process.exitCode = 1;
  }
}

async function printShape(): Promise<void> {
  const problems: string[] = [];
  const server = await readSourceFiles(join(PACKAGES, 'server/src'));
  const protocol = await readSourceFiles(join(PACKAGES, 'protocol/src'));

  console.log('packages/server/src: files and lines by folder');
  printFolders(server, (path) => path.split('/')[0] ?? '');
  for (const [name, files] of [
    ['packages/server/src', server],
    ['packages/protocol/src', protocol],
  ] as const) {
    const { files: count, lines, median, p90, tiny, huge } = sizesOf(files);
    console.log(`${name}: ${count} files, ${lines} lines, median ${median}, p90 ${p90}, below 25 lines: ${tiny}`);
    if (huge.length > 0) problems.push(`more than ${MAX_LINES} lines: ${huge.join(', ')}`);
    if (files !== server) continue;
    const [least, most] = LIMITS.median;
    if (median < least || median > most)
      problems.push(`the median file has ${median} lines: expected ${least} to ${most}`);
    if (p90 > LIMITS.p90)
      problems.push(`a tenth of the files has more than ${p90} lines: at most ${LIMITS.p90} allowed`);
    if (tiny / count > LIMITS.tinyShare) problems.push(`${tiny} of ${count} files have fewer than 25 lines`);
  }
  for (const [folder, most] of Object.entries(FOLDERS)) {
    const { files, lines } = sizesOf(server.filter(({ path }) => path.startsWith(folder)));
    if (files > most.files || lines > most.lines)
      problems.push(`${folder} has ${files} files and ${lines} lines: at most ${most.files} and ${most.lines} allowed`);
  }
  const { lines: total } = sizesOf(await readServiceFiles(PACKAGES));
  if (total > LIMITS.total) problems.push(`the service has ${total} lines: at most ${LIMITS.total} allowed`);

  const upward = upwardImports(server);
  console.log(`imports against the order of the folders: ${upward.length}`);
  const cycles = [...importCycles(server), ...importCycles(protocol)];
  console.log(`import cycles, type imports included: ${cycles.length}`);
  problems.push(...upward.map((line) => `import against the order of the folders: ${line}`));
  problems.push(...cycles.map((cycle) => `import cycle: ${cycle.join(', ')}`));

  if (process.argv.includes('--check')) {
    for (const problem of problems) console.error(problem);
    if (problems.length > 0) process.exitCode = 1;
  }
}

if (process.argv.includes('--total')) await printTotal();
else if (process.argv.includes('--call')) await printCallPath();
else await printShape();
