import type { Scenario } from './scenario.ts';

const ATTEMPTS = 4;

/**
 * Runs a suite up to four times and returns the first result without faults of each scenario. Some checks have a fixed
 * timeout of a second, which a busy machine exceeds; a real fault occurs in every run.
 *
 * @param faulty returns the names of the scenarios with faults
 */
export async function retryRegressions(
  run: () => Promise<Scenario[]>,
  faulty: (scenarios: readonly Scenario[]) => ReadonlySet<string>,
): Promise<Scenario[]> {
  let best = await run();
  for (let attempt = 1; attempt < ATTEMPTS && faulty(best).size > 0; attempt++) {
    const next = await run();
    const [before, now] = [faulty(best), faulty(next)];
    best = best.map((scenario) => {
      const { name } = scenario;
      const retried = before.has(name) && !now.has(name) ? next.find((other) => other.name === name) : undefined;
      return retried ?? scenario;
    });
  }
  return best;
}
