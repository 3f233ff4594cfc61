import { startDualEra } from '../fixtures/dual-era.ts';
import { startGateway } from '../fixtures/gateway.ts';
import { toolList, toolText } from '../fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../fixtures/raw-upstream.ts';
import { bestOf } from './best-of.ts';
import { discovered } from './discovered.ts';
import { runReferee } from './referee.ts';
import { type Scenario, serverPasses } from './scenario.ts';
import { type CrossedSuite, crossedSuites } from './suites.ts';
import { crossedScenarioFaults } from './verdict.ts';

/** A suite runs a few seconds; one in which some calls hang takes until its scenarios give up. */
const TIMEOUT_MS = 300_000;

/** What a suite of one era found about the gateway in front of an upstream of the other. */
export interface CrossedReport {
  readonly suite: CrossedSuite;
  /** The scored ones. */
  readonly scenarios: readonly Scenario[];
  readonly passing: number;
}

/** Runs the suites of each era through a gateway whose upstreams know the other era alone. */
export async function refereeCrossed(): Promise<CrossedReport[]> {
  const reports: CrossedReport[] = [];
  for (const suite of crossedSuites) {
    const reportOf = (all: readonly Scenario[]): CrossedReport => {
      const scenarios = all.filter(({ unscored }) => unscored === undefined);
      return { suite, scenarios, passing: scenarios.filter(serverPasses).length };
    };
    const found = await bestOf(
      () => crossed(suite),
      (all) =>
        new Set(all.filter((scenario) => crossedScenarioFaults(suite, scenario).length > 0).map(({ name }) => name)),
    );
    reports.push(reportOf(found));
  }
  return reports;
}

/**
 * One of them. The upstream is the second of two forwards in the namespace, so that whatever goes to the wrong one is
 * seen. The first is of the same era and has next to nothing, so that all that is offered to the client comes across.
 */
async function crossed(suite: CrossedSuite): Promise<Scenario[]> {
  const started = new AsyncDisposableStack();
  try {
    const upstream = await startDualEra({ eras: suite.upstream });
    started.defer(upstream.close);
    const other = await startRawUpstream({
      eras: [suite.upstream],
      scripts: { 'tools/list': toolList(toolText('other')) },
    });
    started.defer(other.close);
    const gateway = await startGateway();
    started.defer(gateway.close);
    await gateway.forward('other', other.url);
    await gateway.forward('upstream', upstream.url);
    await discovered(gateway.forwards);
    return await runReferee({ suite, mode: 'server', args: ['--url', gateway.url()], timeoutMs: TIMEOUT_MS });
  } finally {
    await started.disposeAsync();
  }
}
