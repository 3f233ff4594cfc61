import { fileURLToPath } from 'node:url';
import { retryRegressions } from './best-of.ts';
import { clientPasses, type Scenario } from './scenario.ts';
import { SCENARIO_RUNNER_PORT, startScenarioRunner } from './scenario-runner.ts';
import { runSuite } from './suite-process.ts';
import { clientSuites, type Suite } from './suites.ts';

/** A suite starts all scenarios at once; they run one after the other. */
const SUITE_TIMEOUT_MS = 300_000;
const SCENARIO_TIMEOUT_MS = 240_000;

/** Results of a client suite for the gateway with the official client. */
export interface ClientReport {
  readonly suite: Suite;
  /** Without the scenarios of client authorization. */
  readonly scenarios: readonly Scenario[];
  readonly passing: number;
  /** Number of scenarios of client authorization, which does not involve a gateway. */
  readonly authorization: number;
}

/** Runs the client suites: the suite is the upstream, and the client under test connects to it through a gateway. */
export async function runClientSuites(): Promise<ClientReport[]> {
  const runner = await startScenarioRunner();
  try {
    const reports: ClientReport[] = [];
    for (const suite of clientSuites) {
      const run = () =>
        runSuite({
          suite,
          mode: 'client',
          args: ['--command', COMMAND, '--timeout', String(SCENARIO_TIMEOUT_MS)],
          env: { [SCENARIO_RUNNER_PORT]: String(runner.port) },
          timeoutMs: SUITE_TIMEOUT_MS,
        });
      const all = await retryRegressions(run, (found) => new Set(found.filter(isFaulty).map(({ name }) => name)));
      const scenarios = all.filter(isInScope);
      reports.push({
        suite,
        scenarios,
        passing: scenarios.filter(clientPasses).length,
        authorization: all.length - scenarios.length,
      });
    }
    return reports;
  } finally {
    await runner.close();
  }
}

/** Client authorization does not involve the gateway. */
function isInScope({ name }: Scenario): boolean {
  return !name.startsWith('auth/');
}

function isFaulty(scenario: Scenario): boolean {
  return isInScope(scenario) && !clientPasses(scenario);
}

/**
 * Shell command that the suite runs with the URL of its server appended. The shell skips the authorization scenarios, dozens
 * at once, without starting Node.js.
 */
const COMMAND = [
  'case "$MCP_CONFORMANCE_SCENARIO" in auth/*) exit 0 ;; esac; exec',
  quote(process.execPath),
  quote(fileURLToPath(new URL('client.ts', import.meta.url))),
].join(' ');

function quote(path: string): string {
  return `'${path.replaceAll("'", "'\\''")}'`;
}
