import { isFailureOrWarning } from './check.ts';
import type { ClientReport } from './clients.ts';
import { type Change, isRegression, type Pair } from './compare.ts';
import type { TranslationReport } from './era-translation.ts';
import type { Exception } from './exceptions.ts';
import { clientPasses, counts, type Scenario, serverPasses } from './scenario.ts';
import type { ServerReport } from './servers.ts';
import { type Suite, versionOf } from './suites.ts';
import { translationFaults } from './verdict.ts';

/** Formats the results as Markdown: versions, totals, and a table of scenarios for each suite. */
export async function report(
  servers: readonly ServerReport[],
  translated: readonly TranslationReport[],
  clients: readonly ClientReport[],
): Promise<string> {
  const versions = new Map<Suite, string>();
  for (const { suite } of [...servers, ...translated, ...clients]) versions.set(suite, await versionOf(suite.package));
  const titleOf = (suite: Suite) => `${versions.get(suite)} \`${suite.args.join(' ')}\``;
  return [
    await versionLine(),
    table(
      ['Sluice as a server', 'scored scenarios', 'pass directly', 'pass through Sluice', 'regressions through Sluice'],
      servers.map(({ suite, pairs, direct, through }) => [
        titleOf(suite),
        suite.scored,
        direct,
        emphasizeUnless(String(through), through >= direct),
        emphasizeUnless(String(regressions(pairs).length), regressions(pairs).length === 0),
      ]),
    ),
    table(
      ['Era translation', 'upstream', 'scored scenarios', 'pass', 'exceptions that fail', 'exceptions with a warning'],
      translated.map((found) => [
        titleOf(found.suite),
        `${found.suite.upstream} only`,
        found.suite.scored,
        emphasizeUnless(String(found.passing), translationFaults(found).length === 0),
        exceptions(found, 'fails'),
        exceptions(found, 'warns'),
      ]),
    ),
    table(
      ['Sluice as a client', 'scenarios', 'pass', 'out of scope: client authorization'],
      clients.map(({ suite, scenarios, passing, authorization }) => [
        titleOf(suite),
        scenarios.length,
        emphasizeUnless(String(passing), passing === scenarios.length),
        authorization,
      ]),
    ),
    'Cells show the number of checks that passed, failed, and ended with a warning.',
    ...servers.map(({ suite, pairs }) => `### As a server: ${titleOf(suite)}\n\n${serverTable(pairs)}`),
    ...translated.map(
      (found) =>
        `### Era translation: ${titleOf(found.suite)}, ${found.suite.upstream} upstream\n\n${translationTable(found)}`,
    ),
    ...clients.map(({ suite, scenarios }) => `### As a client: ${titleOf(suite)}\n\n${clientTable(scenarios)}`),
  ].join('\n\n');
}

/** All regressions in these pairs. */
function regressions(pairs: readonly Pair[]): Change[] {
  return pairs.flatMap(({ changed }) => changed.filter(isRegression));
}

async function versionLine(): Promise<string> {
  const packages = [
    ['upstream with', '@modelcontextprotocol/server'],
    ['second upstream', '@modelcontextprotocol/server-everything'],
    ['client', '@modelcontextprotocol/client'],
  ] as const;
  const labeled = await Promise.all(
    packages.map(async ([label, name]) => `${label} \`${name}\` ${await versionOf(name)}`),
  );
  return `${new Date().toISOString().slice(0, 10)}, Node ${process.versions.node}; ${labeled.join(', ')}.`;
}

function serverTable(pairs: readonly Pair[]): string {
  return table(
    ['Scenario', 'Direct', 'Through Sluice', 'Checks'],
    pairs.map(({ direct, through, failed, changed }) => [
      nameOf(direct),
      emphasizeUnless(numbers(direct), serverPasses(direct)),
      emphasizeUnless(
        through === undefined ? 'did not run' : numbers(through),
        !failed && serverPasses(through ?? direct),
      ),
      [
        ...changed.map(({ id, through: status }) => `\`${id}\` ${status}`),
        ...failing(direct).map((id) => `\`${id}\` (also directly)`),
      ].join(', '),
    ]),
  );
}

function exceptions({ suite }: TranslationReport, result: Exception['result']): number {
  return suite.exceptions.filter((exception) => exception.result === result).length;
}

function translationTable({ suite, scenarios }: TranslationReport): string {
  return table(
    ['Scenario', 'Through Sluice', 'Checks', 'Reason'],
    scenarios.map((scenario) => [
      nameOf(scenario),
      emphasizeUnless(numbers(scenario), serverPasses(scenario)),
      failing(scenario)
        .map((id) => `\`${id}\``)
        .join(', '),
      suite.exceptions.find((exception) => exception.scenario === scenario.name)?.reason ?? '',
    ]),
  );
}

function clientTable(scenarios: readonly Scenario[]): string {
  return table(
    ['Scenario', 'Through Sluice', 'Checks'],
    scenarios.map((scenario) => [
      nameOf(scenario),
      emphasizeUnless(numbers(scenario), clientPasses(scenario)),
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

/** Unique ids of the checks that failed or warned. */
function failing({ checks }: Scenario): string[] {
  const ids = checks.filter(({ status }) => isFailureOrWarning(status)).map(({ id }) => id);
  return [...new Set(ids)];
}

/** Sets unexpected values in bold. */
function emphasizeUnless(text: string, isExpected: boolean): string {
  return isExpected ? text : `**${text}**`;
}

function table(headers: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  const line = (cells: readonly (string | number)[]) => `| ${cells.join(' | ')} |`;
  return [line(headers), `|${headers.map(() => '---|').join('')}`, ...rows.map(line)].join('\n');
}
