import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import type { Options } from './options.ts';
import { formatTable, type Report } from './tables.ts';

/**
 * Formats the figures of a part. Adds a line to `missed` for each one that does not meet its bound.
 *
 * @param loadBefore load average at the start
 */
export function formatReport(
  { measured, tables }: Report,
  options: Options,
  loadBefore: number,
  missed: string[],
): string {
  const { quick, nodeFlags, customNodeFlags, log } = options;
  const environment = [
    `${quick ? 'Quick form' : 'Full form'}, ${new Date().toISOString().slice(0, 10)}`,
    `${cpus().length} cores of ${cpus()[0]?.model.trim() ?? 'unknown'}`,
    `Node.js ${process.version.slice(1)}${customNodeFlags ? ` with ${nodeFlags.join(' ')}` : ''}`,
    nginxVersion(),
    ...(log === undefined ? [] : [`log ${log}`]),
    `load average before ${loadBefore.toFixed(1)}`,
    ...(measured === '' ? [] : [measured]),
  ];
  return [`${environment.join(', ')}.`, ...tables.map((each) => formatTable(each, missed))].join('\n\n');
}

/** Replaces the block between the comments with this name in a Markdown file. */
export function writeBlock(file: string, name: string, text: string): void {
  const [begin, end] = [`<!-- ${name}: begin -->`, `<!-- ${name}: end -->`];
  const page = readFileSync(file, 'utf8');
  const [from, to] = [page.indexOf(begin), page.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`${file}: missing or misplaced comments "${begin}" and "${end}"`);
  writeFileSync(file, `${page.slice(0, from + begin.length)}\n\n${text}\n\n${page.slice(to)}`);
}

function nginxVersion(): string {
  try {
    return /nginx\/[\d.]+/.exec(execFileSync('sh', ['-c', 'nginx -v 2>&1'], { encoding: 'utf8' }))?.[0] ?? 'no nginx';
  } catch {
    return 'no nginx';
  }
}
