import { startDualEra } from '../fixtures/dual-era.ts';
import { startGateway } from '../fixtures/gateway.ts';
import { toolList, toolText } from '../fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../fixtures/raw-upstream.ts';
import { retryRegressions } from './best-of.ts';
import { discovered } from './discovered.ts';
import { type Scenario, serverPasses } from './scenario.ts';
import type { TestedGateway } from './servers.ts';
import { runSuite } from './suite-process.ts';
import { type TranslationSuite, translationSuites } from './suites.ts';
import { translationScenarioFaults } from './verdict.ts';

/** A suite takes a few seconds, or until its scenarios time out if calls hang. */
const TIMEOUT_MS = 300_000;

/** Results of a suite of one era for the gateway with an upstream of the other era. */
export interface TranslationReport {
  readonly suite: TranslationSuite;
  /** The scored scenarios. */
  readonly scenarios: readonly Scenario[];
  readonly passing: number;
}

/** Runs the suites of each era through a gateway whose upstreams support only the other era. */
export async function runTranslationSuites(
  start: () => Promise<TestedGateway> = startGateway,
): Promise<TranslationReport[]> {
  const reports: TranslationReport[] = [];
  for (const suite of translationSuites) {
    const reportOf = (all: readonly Scenario[]): TranslationReport => {
      const scenarios = all.filter(({ unscored }) => unscored === undefined);
      return { suite, scenarios, passing: scenarios.filter(serverPasses).length };
    };
    const found = await retryRegressions(
      () => runTranslated(suite, start),
      (all) =>
        new Set(
          all.filter((scenario) => translationScenarioFaults(suite, scenario).length > 0).map(({ name }) => name),
        ),
    );
    reports.push(reportOf(found));
  }
  return reports;
}

/**
 * Runs one suite. The upstream is the second of two forwards in the namespace, so that requests routed to the wrong forward
 * are detected. The first has the same era and one tool only, so that everything else is translated.
 */
async function runTranslated(suite: TranslationSuite, start: () => Promise<TestedGateway>): Promise<Scenario[]> {
  const started = new AsyncDisposableStack();
  try {
    const upstream = await startDualEra({ eras: suite.upstream });
    started.defer(upstream.close);
    const other = await startRawUpstream({
      eras: [suite.upstream],
      scripts: { 'tools/list': toolList(toolText('other')) },
    });
    started.defer(other.close);
    const gateway = await start();
    started.defer(gateway.close);
    await gateway.forward('other', other.url);
    await gateway.forward('upstream', upstream.url);
    await discovered(gateway.forwards);
    return await runSuite({ suite, mode: 'server', args: ['--url', gateway.url()], timeoutMs: TIMEOUT_MS });
  } finally {
    await started.disposeAsync();
  }
}
