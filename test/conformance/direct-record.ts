import { readFile, writeFile } from 'node:fs/promises';
import { type Check, type CheckStatus, readStatus } from './check.ts';
import { worstResults } from './compare.ts';
import type { Scenario } from './scenario.ts';
import type { ServerReport } from './servers.ts';
import { type ServerSuite, serverSuites, versionOf } from './suites.ts';

/** Results of the suites for the upstream without the gateway, written by `npm run conformance`. */
const FILE = new URL('direct-record.json', import.meta.url);
const OUTDATED = 'the record of the direct run is out of date; run npm run conformance';

/** The packages whose versions the direct run depends on. */
const PACKAGES = ['@modelcontextprotocol/server', ...new Set(serverSuites.map((suite) => suite.package))];

/** The committed results of the direct run. */
export interface DirectRecord {
  /** Versions of the suites and of the upstream. */
  readonly versions: Readonly<Record<string, string>>;
  /** Scenarios by suite and name. */
  readonly suites: Readonly<Record<string, Readonly<Record<string, RecordedScenario>>>>;
}

interface RecordedScenario {
  readonly unscored?: string;
  /** The worst result of each check, by id and name. */
  readonly checks: Readonly<Record<string, Readonly<Record<string, string>>>>;
}

/** Reads the record. Throws if it has other versions than those installed. */
export async function readDirectRecord(): Promise<DirectRecord> {
  const record: DirectRecord = JSON.parse(await readFile(FILE, 'utf8'));
  const installed = await installedVersions();
  for (const [name, version] of Object.entries(installed)) {
    if (record.versions[name] !== version) {
      throw new Error(`${OUTDATED} (${name} ${version} is installed, the record has ${record.versions[name]})`);
    }
  }
  return record;
}

/** Writes the record. */
export async function writeDirectRecord(reports: readonly ServerReport[]): Promise<void> {
  await writeFile(FILE, `${JSON.stringify(await recordOf(reports), null, 2)}\n`);
}

/** Recorded scenarios of a suite. Throws if the record does not have the suite. */
export function recordedScenarios({ suites }: DirectRecord, suite: ServerSuite): Scenario[] {
  const recorded = suites[keyOf(suite)];
  if (recorded === undefined) throw new Error(`${OUTDATED} (it has no suite ${keyOf(suite)})`);
  return Object.entries(recorded).map(([name, { unscored, checks }]) => ({
    name,
    unscored,
    checks: Object.entries(checks).flatMap(([id, ends]) =>
      Object.entries(ends).map(
        ([named, status]): Check => ({ id, name: named, status: readStatus(status), message: '' }),
      ),
    ),
  }));
}

/** Differences between a run and the record, one line each. */
export function recordFaults(record: DirectRecord, { suite, pairs }: ServerReport): string[] {
  const live = new Map(pairs.map(({ direct }) => [direct.name, direct]));
  const recorded = new Map(recordedScenarios(record, suite).map((scenario) => [scenario.name, scenario]));
  return [...new Set([...live.keys(), ...recorded.keys()])].flatMap((name) => {
    const [current, recordedResults] = [resultsOf(live.get(name)), resultsOf(recorded.get(name))];
    return [...new Set([...current.keys(), ...recordedResults.keys()])]
      .filter((check) => current.get(check) !== recordedResults.get(check))
      .map(
        (check) =>
          `${OUTDATED} (${name}: ${check} is ${current.get(check)}, the record has ${recordedResults.get(check)})`,
      );
  });
}

function resultsOf(scenario: Scenario | undefined): Map<string, CheckStatus | string> {
  if (scenario === undefined) return new Map();
  const ends = [...worstResults(scenario.checks)].map(([key, { status }]): [string, string] => [key, status]);
  return new Map([['scored', scenario.unscored ?? 'yes'], ...ends]);
}

async function recordOf(reports: readonly ServerReport[]): Promise<DirectRecord> {
  const suites: Record<string, Record<string, RecordedScenario>> = {};
  for (const { suite, pairs } of reports) {
    suites[keyOf(suite)] = Object.fromEntries(
      pairs.map(({ direct: { name, unscored, checks } }) => {
        const ends: Record<string, Record<string, string>> = {};
        for (const { id, name: named, status } of worstResults(checks).values()) {
          ends[id] = { ...ends[id], [named]: status };
        }
        return [name, { ...(unscored !== undefined && { unscored }), checks: ends }];
      }),
    );
  }
  return { versions: await installedVersions(), suites };
}

async function installedVersions(): Promise<Record<string, string>> {
  return Object.fromEntries(await Promise.all(PACKAGES.map(async (name) => [name, await versionOf(name)])));
}

function keyOf({ package: name, args }: ServerSuite): string {
  return [name, ...args].join(' ');
}
