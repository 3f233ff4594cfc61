import type { Scenario } from './scenario.ts';

const ATTEMPTS = 4;

/**
 * What a suite finds: each scenario of the first run where it has no fault, out of up to four. Referees wait for some things
 * for a second of their own, which a busy machine exceeds; what is really wrong is so in every run.
 *
 * @param faulty the names of the scenarios that have a fault
 */
export async function bestOf(
  run: () => Promise<Scenario[]>,
  faulty: (scenarios: readonly Scenario[]) => ReadonlySet<string>,
): Promise<Scenario[]> {
  let best = await run();
  for (let attempt = 1; attempt < ATTEMPTS && faulty(best).size > 0; attempt++) {
    const next = await run();
    const [before, now] = [faulty(best), faulty(next)];
    best = best.map((scenario) => {
      const { name } = scenario;
      const again = before.has(name) && !now.has(name) ? next.find((other) => other.name === name) : undefined;
      return again ?? scenario;
    });
  }
  return best;
}
