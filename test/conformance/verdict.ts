import type { ClientReport } from './clients.ts';
import { isLoss } from './compare.ts';
import type { CrossedReport } from './crossed.ts';
import type { Exception } from './exceptions.ts';
import { clientPasses, complaints, counts, type Scenario, serverPasses } from './scenario.ts';
import type { ServerReport } from './servers.ts';
import type { CrossedSuite } from './suites.ts';

/** What is wrong with the results of a suite for servers, a line each: empty is what is wanted. */
export function serverFaults({ suite, pairs, direct }: ServerReport): string[] {
  const short = direct < suite.scored ? [`directly, ${direct} of ${suite.scored} scored scenarios pass`] : [];
  const worse = pairs.flatMap(({ direct: { name }, broken, changed }) => [
    ...(broken ? [`${name}: passes directly and fails through the gateway`] : []),
    ...changed
      .filter(isLoss)
      .map(({ id, through, message }) => `${name}: ${id} is ${through} through the gateway. ${message.slice(0, 300)}`),
  ]);
  return [...short, ...worse];
}

/**
 * What is wrong with the results of a suite across the eras, a line each: a scenario that does not end well without being
 * an exception, and an exception that does not end as the list says, or not because of what it says. Empty is what is
 * wanted.
 */
export function crossedFaults({ suite, scenarios }: CrossedReport): string[] {
  const { scored, exceptions } = suite;
  const names = new Set(scenarios.map(({ name }) => name));
  const missing = scored === names.size ? [] : [`${names.size} scored scenarios ran, not ${scored}`];
  const unknown = exceptions
    .filter(({ scenario }) => !names.has(scenario))
    .map(({ scenario }) => `${scenario}: an exception, but no scenario of the suite`);
  const wrong = scenarios.flatMap((scenario) => crossedScenarioFaults(suite, scenario));
  return [...missing, ...unknown, ...wrong];
}

/** What is wrong with the results of one scenario across the eras, a line each. */
export function crossedScenarioFaults({ exceptions }: CrossedSuite, scenario: Scenario): string[] {
  const { name } = scenario;
  const end = endOf(scenario);
  const listed = exceptions.find((exception) => exception.scenario === name);
  if (listed && end === 'passes') return [`${name}: passes, so it is to be taken out of the exceptions`];
  return complaints(scenario)
    .filter((line) => end !== listed?.end || !line.includes(listed.complaint))
    .map((line) => `${name}: ${line}`);
}

function endOf(scenario: Scenario): Exception['end'] | 'passes' {
  if (!serverPasses(scenario)) return 'fails';
  return counts(scenario).warnings > 0 ? 'warns' : 'passes';
}

/** What is wrong with the results of a suite for clients, a line each: empty is what is wanted. */
export function clientFaults({ scenarios }: ClientReport): string[] {
  return scenarios
    .filter((scenario) => !clientPasses(scenario))
    .flatMap((scenario) => {
      const lines = complaints(scenario);
      return (lines.length === 0 ? ['no check succeeded'] : lines).map((line) => `${scenario.name}: ${line}`);
    });
}
