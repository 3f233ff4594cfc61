import { isComplaint } from './check.ts';
import type { ClientReport } from './clients.ts';
import { type Change, isLoss, type Pair } from './compare.ts';
import type { CrossedReport } from './crossed.ts';
import type { Exception } from './exceptions.ts';
import { clientPasses, counts, type Scenario, serverPasses } from './scenario.ts';
import type { ServerReport } from './servers.ts';
import { type Suite, versionOf } from './suites.ts';
import { crossedFaults } from './verdict.ts';

/** The results as Markdown: what was run on what, the totals, and a table of scenarios for each suite. */
export async function report(
  servers: readonly ServerReport[],
  crossed: readonly CrossedReport[],
  clients: readonly ClientReport[],
): Promise<string> {
  const versions = new Map<Suite, string>();
  for (const { suite } of [...servers, ...crossed, ...clients]) versions.set(suite, await versionOf(suite.package));
  const titled = (suite: Suite) => `${versions.get(suite)} \`${suite.args.join(' ')}\``;
  return [
    await conditions(),
    table(
      [
        'Sluice as a server',
        'scored scenarios',
        'pass directly',
        'pass through Sluice',
        'checks that end worse through it',
      ],
      servers.map(({ suite, pairs, direct, through }) => [
        titled(suite),
        suite.scored,
        direct,
        marked(String(through), through >= direct),
        marked(String(losses(pairs).length), losses(pairs).length === 0),
      ]),
    ),
    table(
      [
        'Sluice between the eras',
        'upstream',
        'scored scenarios',
        'pass',
        'exceptions that fail',
        'that end with a warning',
      ],
      crossed.map((found) => [
        titled(found.suite),
        `${found.suite.upstream} alone`,
        found.suite.scored,
        marked(String(found.passing), crossedFaults(found).length === 0),
        exceptions(found, 'fails'),
        exceptions(found, 'warns'),
      ]),
    ),
    table(
      ['Sluice as a client', 'scenarios', 'pass', 'out of scope: the client’s own authorization'],
      clients.map(({ suite, scenarios, passing, authorization }) => [
        titled(suite),
        scenarios.length,
        marked(String(passing), passing === scenarios.length),
        authorization,
      ]),
    ),
    'Three numbers are checks that passed, failed, and ended with a warning.',
    ...servers.map(({ suite, pairs }) => `### As a server: ${titled(suite)}\n\n${serverTable(pairs)}`),
    ...crossed.map(
      (found) =>
        `### Between the eras: ${titled(found.suite)}, ${found.suite.upstream} upstream\n\n${crossedTable(found)}`,
    ),
    ...clients.map(({ suite, scenarios }) => `### As a client: ${titled(suite)}\n\n${clientTable(scenarios)}`),
  ].join('\n\n');
}

/** Every change in these pairs that takes something away. */
function losses(pairs: readonly Pair[]): Change[] {
  return pairs.flatMap(({ changed }) => changed.filter(isLoss));
}

async function conditions(): Promise<string> {
  const parties = [
    ['the upstream on', '@modelcontextprotocol/server'],
    ['next to it', '@modelcontextprotocol/server-everything'],
    ['the client', '@modelcontextprotocol/client'],
  ] as const;
  const named = await Promise.all(parties.map(async ([what, name]) => `${what} \`${name}\` ${await versionOf(name)}`));
  return `${new Date().toISOString().slice(0, 10)}, Node ${process.versions.node}; ${named.join(', ')}.`;
}

function serverTable(pairs: readonly Pair[]): string {
  return table(
    ['Scenario', 'Direct', 'Through', 'Checks'],
    pairs.map(({ direct, through, broken, changed }) => [
      nameOf(direct),
      marked(numbers(direct), serverPasses(direct)),
      marked(through === undefined ? 'did not run' : numbers(through), !broken && serverPasses(through ?? direct)),
      [
        ...changed.map(({ id, through: end }) => `\`${id}\` ${end}`),
        ...failing(direct).map((id) => `\`${id}\` directly as well`),
      ].join(', '),
    ]),
  );
}

function exceptions({ suite }: CrossedReport, end: Exception['end']): number {
  return suite.exceptions.filter((exception) => exception.end === end).length;
}

function crossedTable({ suite, scenarios }: CrossedReport): string {
  return table(
    ['Scenario', 'Through', 'Checks', 'Why'],
    scenarios.map((scenario) => [
      nameOf(scenario),
      marked(numbers(scenario), serverPasses(scenario)),
      failing(scenario)
        .map((id) => `\`${id}\``)
        .join(', '),
      suite.exceptions.find((exception) => exception.scenario === scenario.name)?.reason ?? '',
    ]),
  );
}

function clientTable(scenarios: readonly Scenario[]): string {
  return table(
    ['Scenario', 'Through', 'Checks'],
    scenarios.map((scenario) => [
      nameOf(scenario),
      marked(numbers(scenario), clientPasses(scenario)),
      failing(scenario)
        .map((id) => `\`${id}\``)
        .join(', '),
    ]),
  );
}

function nameOf({ name, unscored }: Scenario): string {
  return unscored === undefined ? name : `${name} (not scored: ${unscored})`;
}

function numbers(scenario: Scenario): string {
  const { passed, failed, warnings } = counts(scenario);
  return `${passed} / ${failed} / ${warnings}`;
}

/** The ids of the checks that failed or warned, each once. */
function failing({ checks }: Scenario): string[] {
  const ids = checks.filter(({ status }) => isComplaint(status)).map(({ id }) => id);
  return [...new Set(ids)];
}

/** What is not as it should be stands out. */
function marked(text: string, fine: boolean): string {
  return fine ? text : `**${text}**`;
}

function table(heads: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  const line = (cells: readonly (string | number)[]) => `| ${cells.join(' | ')} |`;
  return [line(heads), `|${heads.map(() => '---|').join('')}`, ...rows.map(line)].join('\n');
}
