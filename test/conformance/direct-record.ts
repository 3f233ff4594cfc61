import { readFile, writeFile } from 'node:fs/promises';
import { type Check, type CheckStatus, readStatus } from './check.ts';
import { worstEnds } from './compare.ts';
import type { Scenario } from './scenario.ts';
import type { ServerReport } from './servers.ts';
import { type ServerSuite, serverSuites, versionOf } from './suites.ts';

/** What the suites find when they run directly against the upstream: `npm run conformance` writes it. */
const FILE = new URL('direct-record.json', import.meta.url);
const OUTDATED = 'the record of the direct run is out of date: npm run conformance';

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
  /** The worst end of each check, by id and name. */
  readonly checks: Readonly<Record<string, Readonly<Record<string, string>>>>;
}

/** Reads the record. Throws when it was made with other versions than those installed. */
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

/** Writes the record anew. */
export async function writeDirectRecord(reports: readonly ServerReport[]): Promise<void> {
  await writeFile(FILE, `${JSON.stringify(await recordOf(reports), null, 2)}\n`);
}

/** The scenarios of a suite as they were recorded. Throws when the record has none of it. */
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

/** Where a live run of a suite differs from the record, a line each: empty when the record is up to date. */
export function recordFaults(record: DirectRecord, { suite, pairs }: ServerReport): string[] {
  const live = new Map(pairs.map(({ direct }) => [direct.name, direct]));
  const recorded = new Map(recordedScenarios(record, suite).map((scenario) => [scenario.name, scenario]));
  return [...new Set([...live.keys(), ...recorded.keys()])].flatMap((name) => {
    const [now, then] = [endsOf(live.get(name)), endsOf(recorded.get(name))];
    return [...new Set([...now.keys(), ...then.keys()])]
      .filter((check) => now.get(check) !== then.get(check))
      .map((check) => `${OUTDATED} (${name}: ${check} is ${now.get(check)}, the record has ${then.get(check)})`);
  });
}

function endsOf(scenario: Scenario | undefined): Map<string, CheckStatus | string> {
  if (scenario === undefined) return new Map();
  const ends = [...worstEnds(scenario.checks)].map(([key, { status }]): [string, string] => [key, status]);
  return new Map([['scored', scenario.unscored ?? 'yes'], ...ends]);
}

async function recordOf(reports: readonly ServerReport[]): Promise<DirectRecord> {
  const suites: Record<string, Record<string, RecordedScenario>> = {};
  for (const { suite, pairs } of reports) {
    suites[keyOf(suite)] = Object.fromEntries(
      pairs.map(({ direct: { name, unscored, checks } }) => {
        const ends: Record<string, Record<string, string>> = {};
        for (const { id, name: named, status } of worstEnds(checks).values()) {
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
