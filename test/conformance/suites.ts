import { readFile } from 'node:fs/promises';
import { createRequire, findPackageJSON } from 'node:module';
import type { Era } from '../fixtures/raw-upstream/message.ts';
import { type Exception, exceptionsWithLegacyUpstream, exceptionsWithModernUpstream } from './exceptions.ts';

/** A set of scenarios of an installed version of the public conformance suite. */
export interface Suite {
  /** Name in tables and tests. */
  readonly name: string;
  /** The installed package: the npm name or its alias. */
  readonly package: string;
  /** Arguments after `server` or `client` on its command line. */
  readonly args: readonly string[];
}

/** A set of scenarios for servers. */
export interface ServerSuite extends Suite {
  /** Number of scored scenarios. */
  readonly scored: number;
}

/** A set of scenarios of one era, for the gateway with an upstream of the other era. */
export interface TranslationSuite extends ServerSuite {
  /** The only era that the upstream supports. */
  readonly upstream: Era;
  readonly exceptions: readonly Exception[];
}

const PRESENT = '@modelcontextprotocol/conformance';
const STABLE = 'conformance-stable';

/** Suites for servers. */
export const serverSuites: readonly ServerSuite[] = [
  { name: '2025-11-25', package: PRESENT, args: ['--requirements', '2025-11-25'], scored: 30 },
  { name: '2026-07-28', package: PRESENT, args: ['--requirements', '2026-07-28'], scored: 37 },
  { name: 'all', package: STABLE, args: ['--suite', 'all'], scored: 32 },
];

/** Suites for the gateway with an upstream of the other era. */
export const translationSuites: readonly TranslationSuite[] = [
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

/** Suites for clients. */
export const clientSuites: readonly Suite[] = [
  { name: '2025-11-25', package: PRESENT, args: ['--requirements', '2025-11-25'] },
  { name: '2026-07-28', package: PRESENT, args: ['--requirements', '2026-07-28'] },
  { name: 'all', package: STABLE, args: ['--suite', 'all'] },
];

/** Path of the suite's command-line program. */
export function entryOf({ package: name }: Suite): string {
  return createRequire(import.meta.url).resolve(`${name}/dist/index.js`);
}

/** Version of an installed package. */
export async function versionOf(name: string): Promise<string> {
  const manifest = findPackageJSON(name, import.meta.url);
  if (manifest === undefined) throw new Error(`package ${name} is not installed`);
  const { version }: Record<string, unknown> = Object(JSON.parse(await readFile(manifest, 'utf8')));
  return String(version);
}
