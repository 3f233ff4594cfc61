import { fileURLToPath } from 'node:url';
import { bestOf } from './best-of.ts';
import { runReferee } from './referee.ts';
import { clientPasses, type Scenario } from './scenario.ts';
import { STAGE_PORT, startStages } from './stage.ts';
import { clientSuites, type Suite } from './suites.ts';

/** All scenarios of a suite begin at once and are then played one after the other. */
const SUITE_TIMEOUT_MS = 300_000;
const SCENARIO_TIMEOUT_MS = 240_000;

/** What a suite for clients found about the gateway with the official client in front of it. */
export interface ClientReport {
  readonly suite: Suite;
  /** Without those of the client's own authorization. */
  readonly scenarios: readonly Scenario[];
  readonly passing: number;
  /** How many concern the client's own authorization, which a gateway has no part in. */
  readonly authorization: number;
}

/** Runs the suites for clients: the referee is the upstream, and the client under test comes to it through a gateway. */
export async function refereeClients(): Promise<ClientReport[]> {
  const stages = await startStages();
  try {
    const reports: ClientReport[] = [];
    for (const suite of clientSuites) {
      const run = () =>
        runReferee({
          suite,
          mode: 'client',
          args: ['--command', COMMAND, '--timeout', String(SCENARIO_TIMEOUT_MS)],
          env: { [STAGE_PORT]: String(stages.port) },
          timeoutMs: SUITE_TIMEOUT_MS,
        });
      const all = await bestOf(run, (found) => new Set(found.filter(isFaulty).map(({ name }) => name)));
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
    await stages.close();
  }
}

/** The client's own authorization is none of the gateway's. */
function isInScope({ name }: Scenario): boolean {
  return !name.startsWith('auth/');
}

function isFaulty(scenario: Scenario): boolean {
  return isInScope(scenario) && !clientPasses(scenario);
}

/**
 * What the referee hands to a shell, with the address of its server behind it. The shell itself ends the scenarios of
 * authorization, dozens at once, for which nothing has to be started.
 */
const COMMAND = [
  'case "$MCP_CONFORMANCE_SCENARIO" in auth/*) exit 0 ;; esac; exec',
  quoted(process.execPath),
  quoted(fileURLToPath(new URL('client.ts', import.meta.url))),
].join(' ');

function quoted(path: string): string {
  return `'${path.replaceAll("'", "'\\''")}'`;
}
