import { startDualEra } from '../fixtures/dual-era.ts';
import { startEverything } from '../fixtures/everything.ts';
import { startGateway } from '../fixtures/gateway.ts';
import { bestOf } from './best-of.ts';
import { compare, isLoss, type Pair } from './compare.ts';
import { type DirectRecord, recordedScenarios } from './direct-record.ts';
import { discovered } from './discovered.ts';
import { runReferee } from './referee.ts';
import { serverPasses } from './scenario.ts';
import { type ServerSuite, serverSuites } from './suites.ts';

/** A suite runs a few seconds; one that hangs is ended. */
const TIMEOUT_MS = 300_000;

/** What a suite for servers found, directly and through the gateway. */
export interface ServerReport {
  readonly suite: ServerSuite;
  readonly pairs: readonly Pair[];
  /** Scored scenarios that pass. */
  readonly direct: number;
  readonly through: number;
}

/**
 * Runs the suites for servers against the dual-era upstream, first directly, unless there is a `record` of that, then
 * through a gateway that has it as a
 * forward behind another one in the same namespace: the reference server, which offers tools, resources and prompts of
 * its own and comes first, so that whatever goes to the wrong one of two forwards is seen.
 */
export async function refereeServers(record?: DirectRecord): Promise<ServerReport[]> {
  const started = new AsyncDisposableStack();
  try {
    const upstream = await startDualEra();
    started.defer(upstream.close);
    const other = await startEverything();
    started.defer(other.close);
    const gateway = await startGateway();
    started.defer(gateway.close);
    await gateway.forward('other', other.url);
    await gateway.forward('upstream', upstream.url);
    await discovered(gateway.forwards);
    const reports: ServerReport[] = [];
    for (const suite of serverSuites) {
      const run = (url: string) => runReferee({ suite, mode: 'server', args: ['--url', url], timeoutMs: TIMEOUT_MS });
      const direct = record === undefined ? await run(upstream.url) : recordedScenarios(record, suite);
      const through = await bestOf(
        () => run(gateway.url()),
        (scenarios) => {
          const worse = compare(direct, scenarios).filter(({ broken, changed }) => broken || changed.some(isLoss));
          return new Set(worse.map((pair) => pair.direct.name));
        },
      );
      const passing = (scenarios: typeof direct) =>
        scenarios.filter((scenario) => scenario.unscored === undefined && serverPasses(scenario)).length;
      reports.push({ suite, pairs: compare(direct, through), direct: passing(direct), through: passing(through) });
    }
    return reports;
  } finally {
    await started.disposeAsync();
  }
}
