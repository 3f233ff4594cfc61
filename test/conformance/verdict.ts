import type { ClientReport } from './clients.ts';
import { isRegression } from './compare.ts';
import type { TranslationReport } from './era-translation.ts';
import type { Exception } from './exceptions.ts';
import { clientPasses, counts, failureLines, type Scenario, serverPasses } from './scenario.ts';
import type { ServerReport } from './servers.ts';
import type { TranslationSuite } from './suites.ts';

/** Faults in the results of a server suite, one line each. */
export function serverFaults({ suite, pairs, direct }: ServerReport): string[] {
  const short = direct < suite.scored ? [`${direct} of ${suite.scored} scored scenarios pass directly`] : [];
  const worse = pairs.flatMap(({ direct: { name }, failed, changed }) => [
    ...(failed ? [`${name}: passes directly and fails through the gateway`] : []),
    ...changed
      .filter(isRegression)
      .map(({ id, through, message }) => `${name}: ${id} is ${through} through the gateway. ${message.slice(0, 300)}`),
  ]);
  return [...short, ...worse];
}

/**
 * Faults in the results of an era translation suite, one line each: a scenario that fails or warns without being an
 * exception, and an exception with another result or another message than listed.
 */
export function translationFaults({ suite, scenarios }: TranslationReport): string[] {
  const { scored, exceptions } = suite;
  const names = new Set(scenarios.map(({ name }) => name));
  const missing = scored === names.size ? [] : [`${names.size} scored scenarios ran, not ${scored}`];
  const unknown = exceptions
    .filter(({ scenario }) => !names.has(scenario))
    .map(({ scenario }) => `${scenario}: listed as an exception, but not a scenario of the suite`);
  const unexpected = scenarios.flatMap((scenario) => translationScenarioFaults(suite, scenario));
  return [...missing, ...unknown, ...unexpected];
}

/** Faults in the results of one era translation scenario, one line each. */
export function translationScenarioFaults({ exceptions }: TranslationSuite, scenario: Scenario): string[] {
  const { name } = scenario;
  const result = resultOf(scenario);
  const listed = exceptions.find((exception) => exception.scenario === name);
  if (listed && result === 'passes') return [`${name}: passes; remove it from the exceptions`];
  return failureLines(scenario)
    .filter((line) => result !== listed?.result || !line.includes(listed.message))
    .map((line) => `${name}: ${line}`);
}

function resultOf(scenario: Scenario): Exception['result'] | 'passes' {
  if (!serverPasses(scenario)) return 'fails';
  return counts(scenario).warnings > 0 ? 'warns' : 'passes';
}

/** Faults in the results of a client suite, one line each. */
export function clientFaults({ scenarios }: ClientReport): string[] {
  return scenarios
    .filter((scenario) => !clientPasses(scenario))
    .flatMap((scenario) => {
      const lines = failureLines(scenario);
      return (lines.length === 0 ? ['no check succeeded'] : lines).map((line) => `${scenario.name}: ${line}`);
    });
}
