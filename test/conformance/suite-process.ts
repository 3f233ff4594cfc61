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

/** Settings of one run of a suite. */
export interface SuiteRun {
  readonly suite: Suite;
  readonly mode: 'server' | 'client';
  /** Arguments after those of the suite. */
  readonly args: readonly string[];
  /** Further environment variables. */
  readonly env?: Readonly<Record<string, string>>;
  /** The process is killed after this time. */
  readonly timeoutMs: number;
}

/**
 * Runs a suite in its own process and returns the results of its scenarios, in the order of the suite. Its files are
 * written to a temporary folder, which is removed. Rejects without a summary in time.
 */
export async function runSuite({ suite, mode, args, env, timeoutMs }: SuiteRun): Promise<Scenario[]> {
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
    const [stdout, errors] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
    const summary = summaryIn(stdout);
    if (child.signalCode !== null || summary.length === 0) {
      const ending =
        child.signalCode === null ? `exited with code ${child.exitCode}` : `was killed after ${timeoutMs} ms`;
      const last = [...stdout.split('\n'), ...errors.split('\n')].slice(-20).join('\n');
      throw new Error(`${mode} ${suite.args.join(' ')} of ${suite.package} ${ending} without a summary:\n${last}`);
    }
    const found = await resultsIn(output, mode);
    return summary.map(({ name, unscored }) => ({ name, unscored, checks: found.get(name) ?? [didNotRun(name)] }));
  } finally {
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  }
}

/** Scenarios of the summary, with the reason of each unscored one. */
function summaryIn(stdout: string): Pick<Scenario, 'name' | 'unscored'>[] {
  const summary = stdout.slice(stdout.search(/^=== (SUITE )?SUMMARY ===$/m));
  const unscored = new Map(
    [...summary.matchAll(/^ {2}[✓✗] (\S+) \(([\w-]+)\)$/gm)].map(([, name = '', reason = '']) => [name, reason]),
  );
  return [...summary.matchAll(/^[✓✗-] ([^\s:]+): /gm)].map(([, name = '']) => ({ name, unscored: unscored.get(name) }));
}

/**
 * Reads the result folders of the suite, one for each scenario. Output of a scenario's client on stderr means that the
 * client failed; suites with several scenarios do not count that, so it is added as a check.
 */
async function resultsIn(output: string, mode: SuiteRun['mode']): Promise<Map<string, Check[]>> {
  const results = new Map<string, Check[]>();
  for (const entry of await readdir(output, { recursive: true, withFileTypes: true })) {
    if (entry.name !== 'checks.json') continue;
    const named = relative(output, entry.parentPath).replace(/-\d{4}-\d\d-\d\dT[\d-]+Z$/, '');
    const checks = readChecks(await readFile(join(entry.parentPath, 'checks.json'), 'utf8'));
    if (mode === 'server') {
      results.set(named.replace(/^server-/, ''), checks);
      continue;
    }
    const error = (await readFile(join(entry.parentPath, 'stderr.txt'), 'utf8')).trim();
    if (error !== '') checks.push({ id: 'client', name: 'Client', status: 'FAILURE', message: error });
    results.set(named, checks);
  }
  return results;
}

function didNotRun(name: string): Check {
  return { id: name, name: 'Scenario', status: 'FAILURE', message: 'the suite could not run this scenario' };
}
