import { isFailureOrWarning } from './check.ts';
import type { ClientReport } from './clients.ts';
import { type Change, isRegression, type Pair } from './compare.ts';
import type { TranslationReport } from './era-translation.ts';
import type { Exception } from './exceptions.ts';
import { clientPasses, counts, type Scenario } from './scenario.ts';
import type { ServerReport } from './servers.ts';
import { type Suite, versionOf } from './suites.ts';
import { translationFaults } from './verdict.ts';

/** Formats the results as Markdown: versions, totals, and the scenarios with failures or warnings. */
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
    'Scenarios with a failure or a warning, in one of these runs: the number of checks that passed, failed, and ended with a warning.',
    table(
      ['Scenario', 'suite', 'directly', 'through Sluice', 'checks', 'reason'],
      [
        ...servers.flatMap((found) => serverRows(found, titleOf(found.suite))),
        ...translated.flatMap((found) => translationRows(found, titleOf(found.suite))),
        ...clients.flatMap((found) => clientRows(found, titleOf(found.suite))),
      ],
    ),
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

type Row = readonly (string | number)[];

function serverRows({ pairs }: ServerReport, title: string): Row[] {
  return pairs
    .filter(({ direct, failed, changed }) => failed || changed.some(isRegression) || failing(direct).length > 0)
    .map(({ direct, through, failed, changed }) => [
      nameOf(direct),
      title,
      numbers(direct),
      emphasizeUnless(through === undefined ? 'did not run' : numbers(through), !failed && !changed.some(isRegression)),
      [
        ...changed.map(({ id, through: status }) => `\`${id}\` ${status}`),
        ...failing(direct).map((id) => `\`${id}\``),
      ].join(', '),
      failing(direct).length > 0 ? 'also without Sluice' : '',
    ]);
}

function exceptions({ suite }: TranslationReport, result: Exception['result']): number {
  return suite.exceptions.filter((exception) => exception.result === result).length;
}

function translationRows({ suite, scenarios }: TranslationReport, title: string): Row[] {
  return scenarios
    .filter((scenario) => failing(scenario).length > 0)
    .map((scenario) => [
      nameOf(scenario),
      `${title}, ${suite.upstream} upstream`,
      '',
      numbers(scenario),
      checksOf(scenario),
      suite.exceptions.find((exception) => exception.scenario === scenario.name)?.reason ?? '',
    ]);
}

function clientRows({ scenarios }: ClientReport, title: string): Row[] {
  return scenarios
    .filter((scenario) => !clientPasses(scenario))
    .map((scenario) => [nameOf(scenario), `${title}, as a client`, '', numbers(scenario), checksOf(scenario), '']);
}

/** The checks that failed or warned. */
function checksOf(scenario: Scenario): string {
  return failing(scenario)
    .map((id) => `\`${id}\``)
    .join(', ');
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
