// Finds text that only some files of the service may have. Part of `npm run check`; exits with 1 and one line per finding.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { readServiceFiles } from './shape/source-files.ts';

/** Text that only some files may have. */
export interface Restriction {
  /** Matched with each line. */
  readonly pattern: RegExp;
  /** Files that may have it, relative to `packages`; a folder ends with `/`. */
  readonly allowed: readonly string[];
  /** What to use in other files. */
  readonly reason: string;
}

const RESTRICTIONS: readonly Restriction[] = [
  {
    pattern: /x-forwarded-user|x-auth-request-user/i,
    allowed: ['server/src/identity/'],
    reason: 'only one place decides who makes a request: use its principal',
  },
  {
    // A header, not a word of a sentence.
    pattern: /\.authorization\b|['"`]authorization['"`]|(?:[{,]|^)\s*authorization\s*[,}:=]/,
    allowed: [
      // Credentials of egress proxies.
      'server/src/http/client/egress-proxies.ts',
      'server/src/http/client/request-writer.ts',
      'server/src/http/client/tunnel.ts',
      // Names of headers that settings must not use, and that are not forwarded.
      'server/src/identity/',
      // A name that the parser knows.
      'server/src/http/server/request-parser.ts',
      // The relay of token requests.
      'server/src/mcp/oauth-metadata.ts',
      // Keys of models.
      'server/src/policy/llm/client.ts',
    ],
    reason: 'credentials of clients are read where their identity is determined, and nowhere else',
  },
  {
    // A member of a namespace, not a word of a sentence.
    pattern: /\.indexes\b|(?:[{,]|^)\s*indexes\s*[,:}]/,
    allowed: [
      'server/src/access/',
      'server/src/registry/',
      // All entries, for operators and for actions.
      'server/src/mcp/namespace-view.ts',
      'server/src/policy/registry-view.ts',
    ],
    reason: 'entries of all clients: use access.resolve for a request and visibleEntries for a list',
  },
  {
    // Look-ups of a snapshot that find shadowed and disabled entries, too.
    pattern: /\.entries\(kind\b|\.isServed\(|\.shadowed\(|\bstoredTexts\(\w/,
    allowed: [
      'server/src/management/',
      'server/src/registry/',
      // Numbers of entries.
      'server/src/app/migrate.ts',
      // Discovery: texts that are stored already.
      'server/src/upstreams/mcp/forward-connection.ts',
    ],
    reason: 'entries that clients may not see: use access.resolve for a request and visibleEntries for a list',
  },
  {
    pattern: /\bas (?:Permit(?:Outline)?|never)\b/,
    allowed: [],
    reason: 'only access.decide creates permits, and access.outline their outlines',
  },
  {
    pattern: /(?:\/\/|\*).*\b(?:decisions|mcp|spec|structure|facts)(?:\.md)? \d{1,2}(?:\.\d+)?\b/,
    allowed: [],
    reason: 'comments cite nothing outside of the repository: state the rule itself',
  },
  {
    // V8 allocates such a function in its old generation: what it refers to stays until a full collection, and all collections
    // before that copy it. One function of each call were pauses of 15 to 40 ms at 1,000 calls per second.
    pattern: /[\w\])]\.#?\w+ (?:\?\?)?= \(*(?:async )?(?:function|(?:\([^()]*\)|\w+) =>)/,
    allowed: [
      // Once in a process.
      'server/src/app/config/bounded-yaml.ts',
      'server/src/management/reference.ts',
      'server/src/policy/sandbox/',
      'server/src/telemetry/otlp.ts',
      'server/src/telemetry/time-series.ts',
      'server/src/upstreams/grpc/channels.ts',
    ],
    reason: 'a function that is assigned to a member outlives its request in the old generation: declare it first',
  },
  {
    pattern: /\bas unknown as\b/,
    allowed: ['server/src/upstreams/grpc/channels.ts'],
    reason: 'it disables the compiler: parse the value into its type',
  },
];

/** Returns a line for each finding in files with these texts, and for each allowed file that has no such text. */
export function findRestricted(
  texts: ReadonlyMap<string, string>,
  restrictions: readonly Restriction[] = RESTRICTIONS,
): string[] {
  return restrictions.flatMap(({ pattern, allowed, reason }) => {
    const used = new Set<string>();
    const findings: string[] = [];
    for (const [path, text] of texts) {
      const permitted = allowed.find((name) => path === name || (name.endsWith('/') && path.startsWith(name)));
      text.split('\n').forEach((line, at) => {
        const [found] = pattern.exec(line) ?? [];
        if (found === undefined) return;
        if (permitted === undefined) findings.push(`packages/${path}:${at + 1}: ${found.trim()}: ${reason}`);
        else used.add(permitted);
      });
    }
    const unused = allowed.filter((name) => !used.has(name));
    return [...findings, ...unused.map((name) => `packages/${name}: has no ${pattern}: remove it from this rule`)];
  });
}

if (import.meta.main) {
  const packages = join(import.meta.dirname, '../packages');
  const files = await readServiceFiles(packages);
  const texts = await Promise.all(
    files.map(async ({ path }) => [path, await readFile(join(packages, path), 'utf8')] as const),
  );
  const findings = findRestricted(new Map(texts));
  for (const finding of findings) console.error(finding);
  if (findings.length > 0) process.exitCode = 1;
}
