import type { ClientReport } from './clients.ts';
import { isLoss } from './compare.ts';
import { clientPasses, complaints } from './scenario.ts';
import type { ServerReport } from './servers.ts';

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

/** What is wrong with the results of a suite for clients, a line each: empty is what is wanted. */
export function clientFaults({ scenarios }: ClientReport): string[] {
  return scenarios
    .filter((scenario) => !clientPasses(scenario))
    .flatMap((scenario) => {
      const lines = complaints(scenario);
      return (lines.length === 0 ? ['no check succeeded'] : lines).map((line) => `${scenario.name}: ${line}`);
    });
}
