import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { text } from 'node:stream/consumers';
import { ENVIRONMENT } from '../fixtures/environment.ts';
import { type Check, readChecks } from './check.ts';
import type { Scenario } from './scenario.ts';
import { entryOf, type Suite } from './suites.ts';

/** One run of a referee. */
export interface RefereeRun {
  readonly suite: Suite;
  readonly mode: 'server' | 'client';
  /** What follows the suite's own arguments. */
  readonly args: readonly string[];
  /** Further environment variables. */
  readonly env?: Readonly<Record<string, string>>;
  /** It is killed after this time. */
  readonly timeoutMs: number;
}

/**
 * Runs a referee as a process of its own and returns what each of its scenarios found, in the referee's order. Its files
 * go to a temporary folder, which is removed. Rejects when it does not come to its summary in time.
 */
export async function runReferee({ suite, mode, args, env, timeoutMs }: RefereeRun): Promise<Scenario[]> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-conformance-'));
  try {
    const output = join(folder, 'output');
    const child = spawn(process.execPath, [entryOf(suite), mode, ...suite.args, ...args, '-o', output], {
      cwd: folder,
      env: { ...ENVIRONMENT, HOME: folder, TMPDIR: folder, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: timeoutMs,
      killSignal: 'SIGKILL',
    });
    const [said, complained] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
    const summary = summaryIn(said);
    if (child.signalCode !== null || summary.length === 0) {
      const how = child.signalCode === null ? `ended with code ${child.exitCode}` : `was ended after ${timeoutMs} ms`;
      const last = [...said.split('\n'), ...complained.split('\n')].slice(-20).join('\n');
      throw new Error(`${mode} ${suite.args.join(' ')} of ${suite.package} ${how} without a summary:\n${last}`);
    }
    const found = await resultsIn(output, mode);
    return summary.map(({ name, unscored }) => ({ name, unscored, checks: found.get(name) ?? [didNotRun(name)] }));
  } finally {
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  }
}

/** The scenarios that the referee's summary names, and why those that do not count do not. */
function summaryIn(said: string): Pick<Scenario, 'name' | 'unscored'>[] {
  const summary = said.slice(said.search(/^=== (SUITE )?SUMMARY ===$/m));
  const unscored = new Map(
    [...summary.matchAll(/^ {2}[✓✗] (\S+) \(([\w-]+)\)$/gm)].map(([, name = '', reason = '']) => [name, reason]),
  );
  return [...summary.matchAll(/^[✓✗-] ([^\s:]+): /gm)].map(([, name = '']) => ({ name, unscored: unscored.get(name) }));
}

/**
 * Reads the folders that the referee has left, one for each scenario. What the client of a scenario wrote to stderr
 * means that it failed; referees that run several scenarios do not count that, so it is added as a check.
 */
async function resultsIn(output: string, mode: RefereeRun['mode']): Promise<Map<string, Check[]>> {
  const results = new Map<string, Check[]>();
  for (const entry of await readdir(output, { recursive: true, withFileTypes: true })) {
    if (entry.name !== 'checks.json') continue;
    const named = relative(output, entry.parentPath).replace(/-\d{4}-\d\d-\d\dT[\d-]+Z$/, '');
    const checks = readChecks(await readFile(join(entry.parentPath, 'checks.json'), 'utf8'));
    if (mode === 'server') {
      results.set(named.replace(/^server-/, ''), checks);
      continue;
    }
    const complaint = (await readFile(join(entry.parentPath, 'stderr.txt'), 'utf8')).trim();
    if (complaint !== '') checks.push({ id: 'client', name: 'Client', status: 'FAILURE', message: complaint });
    results.set(named, checks);
  }
  return results;
}

function didNotRun(name: string): Check {
  return { id: name, name: 'Scenario', status: 'FAILURE', message: 'the referee could not run this scenario' };
}
