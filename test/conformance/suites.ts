import { readFile } from 'node:fs/promises';
import { createRequire, findPackageJSON } from 'node:module';
import type { Era } from '../fixtures/raw-upstream/message.ts';
import { type Exception, exceptionsWithLegacyUpstream, exceptionsWithModernUpstream } from './exceptions.ts';

/** A set of scenarios of an installed version of the public conformance suite. */
export interface Suite {
  /** How tables and tests name it. */
  readonly name: string;
  /** The installed package: the npm name or its alias. */
  readonly package: string;
  /** What follows `server` or `client` on its command line. */
  readonly args: readonly string[];
}

/** A set of scenarios for servers. */
export interface ServerSuite extends Suite {
  /** How many of its scored scenarios a complete upstream passes: all of them. */
  readonly scored: number;
}

/** A set of scenarios of one era, for a server of the other one with the gateway in front of it. */
export interface CrossedSuite extends ServerSuite {
  /** The only era that the upstream knows. */
  readonly upstream: Era;
  readonly exceptions: readonly Exception[];
}

const PRESENT = '@modelcontextprotocol/conformance';
const STABLE = 'conformance-stable';

/** What is run against servers. */
export const serverSuites: readonly ServerSuite[] = [
  { name: '2025-11-25', package: PRESENT, args: ['--requirements', '2025-11-25'], scored: 30 },
  { name: '2026-07-28', package: PRESENT, args: ['--requirements', '2026-07-28'], scored: 37 },
  { name: 'all', package: STABLE, args: ['--suite', 'all'], scored: 32 },
];

/** What is run against the gateway with an upstream of the other era. */
export const crossedSuites: readonly CrossedSuite[] = [
  {
    name: '2026-07-28 with a legacy upstream',
    package: PRESENT,
    args: ['--requirements', '2026-07-28'],
    scored: 37,
    upstream: 'legacy',
    exceptions: exceptionsWithLegacyUpstream,
  },
  {
    name: '2025-11-25 with a modern upstream',
    package: PRESENT,
    args: ['--requirements', '2025-11-25'],
    scored: 30,
    upstream: 'modern',
    exceptions: exceptionsWithModernUpstream,
  },
];

/** What is run against clients. */
export const clientSuites: readonly Suite[] = [
  { name: '2025-11-25', package: PRESENT, args: ['--requirements', '2025-11-25'] },
  { name: '2026-07-28', package: PRESENT, args: ['--requirements', '2026-07-28'] },
  { name: 'all', package: STABLE, args: ['--suite', 'all'] },
];

/** The file that runs the suite's command line. */
export function entryOf({ package: name }: Suite): string {
  return createRequire(import.meta.url).resolve(`${name}/dist/index.js`);
}

/** The version of an installed package. */
export async function versionOf(name: string): Promise<string> {
  const manifest = findPackageJSON(name, import.meta.url);
  if (manifest === undefined) throw new Error(`package ${name} is not installed`);
  const { version }: Record<string, unknown> = Object(JSON.parse(await readFile(manifest, 'utf8')));
  return String(version);
}
