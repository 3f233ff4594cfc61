import { startDualEra } from '../fixtures/dual-era.ts';
import { startEverything } from '../fixtures/everything.ts';
import { type Gateway, startGateway } from '../fixtures/gateway.ts';
import { retryRegressions } from './best-of.ts';
import { compare, isRegression, type Pair } from './compare.ts';
import { type DirectRecord, recordedScenarios } from './direct-record.ts';
import { discovered } from './discovered.ts';
import { serverPasses } from './scenario.ts';
import { runSuite } from './suite-process.ts';
import { type ServerSuite, serverSuites } from './suites.ts';

/** A suite takes a few seconds; one that hangs is killed. */
const TIMEOUT_MS = 300_000;

/** The gateway under test: one process, or replicas behind a balancer. */
export type TestedGateway = Pick<Gateway, 'forward' | 'forwards' | 'url' | 'close'>;

/** Results of a server suite, directly and through the gateway. */
export interface ServerReport {
  readonly suite: ServerSuite;
  readonly pairs: readonly Pair[];
  /** Scored scenarios that pass. */
  readonly direct: number;
  readonly through: number;
}

/**
 * Runs the server suites against the dual-era upstream, first directly, unless there is a `record` of that, then through a
 * gateway. The namespace has another forward before it: the reference server with its own tools, resources and prompts, so
 * that requests routed to the wrong forward are detected.
 */
export async function runServerSuites(
  record?: DirectRecord,
  start: () => Promise<TestedGateway> = startGateway,
): Promise<ServerReport[]> {
  const started = new AsyncDisposableStack();
  try {
    const upstream = await startDualEra();
    started.defer(upstream.close);
    const other = await startEverything();
    started.defer(other.close);
    const gateway = await start();
    started.defer(gateway.close);
    await gateway.forward('other', other.url);
    await gateway.forward('upstream', upstream.url);
    await discovered(gateway.forwards);
    const reports: ServerReport[] = [];
    for (const suite of serverSuites) {
      const run = (url: string) => runSuite({ suite, mode: 'server', args: ['--url', url], timeoutMs: TIMEOUT_MS });
      const direct = record === undefined ? await run(upstream.url) : recordedScenarios(record, suite);
      const through = await retryRegressions(
        () => run(gateway.url()),
        (scenarios) => {
          const regressions = compare(direct, scenarios).filter(
            ({ failed, changed }) => failed || changed.some(isRegression),
          );
          return new Set(regressions.map((pair) => pair.direct.name));
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
