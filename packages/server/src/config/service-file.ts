import { resolve } from 'node:path';
import type { z } from 'zod';
import { type ForwardEntry, forwardEntry, type NamespaceEntry, namespaceEntry } from './bootstrap-entries.ts';
import { type BridgeGrpcSettings, bridgeEntry, bridgeGrpcFile, bridgeGrpcOf } from './bridge-grpc.ts';
import { ConfigError } from './config-error.ts';
import { quote } from './setting.ts';
import { warnOfNoEffect } from './without-effect.ts';
import { type KeyPath, parseYamlFile, readTextFile, type YamlFile } from './yaml-file.ts';

/** Keys that are known here and read by the parts that they belong to. */
const LATER_KEYS = ['evaluators', 'llm_connections', 'plugins'] as const;
const KEYS: readonly string[] = ['forwards', 'namespaces', ...LATER_KEYS, 'bridge'];

/** The bootstrap file (decisions 1.3). */
export interface ServiceFile {
  /** Absolute; relative paths in the file start at its folder. Undefined when there is no file. */
  readonly path: string | undefined;
  readonly forwards: readonly ForwardEntry[];
  readonly namespaces: readonly NamespaceEntry[];
  /** What stands under `bridge: grpc:`. */
  readonly bridgeGrpc: BridgeGrpcSettings;
  /** What stands under the other known keys, unchecked. */
  readonly later: Readonly<Partial<Record<(typeof LATER_KEYS)[number], unknown>>>;
  /** Entries that were left out and other oddities, one line each with file, line and column. */
  readonly warnings: readonly string[];
}

const DEFAULT_FILE = 'service.yaml';

/**
 * Reads the bootstrap file named by `--service-config`, else `service.yaml` in `cwd` when it exists, else none. Throws
 * {@link ConfigError} for a named file that is missing, and for one that is unparsable or has unknown top-level keys.
 */
export async function loadServiceFile(flag: string | undefined, cwd: string): Promise<ServiceFile> {
  const path = resolve(cwd, flag ?? DEFAULT_FILE);
  const name = flag === undefined ? path : `--service-config ${path}`;
  const text = await readTextFile(path, name);
  if (text !== undefined) return parseServiceFile(text, path, name);
  if (flag !== undefined) throw new ConfigError(`${name}: no such file; name one that exists or leave the flag out`);
  return { path: undefined, forwards: [], namespaces: [], bridgeGrpc: bridgeGrpcOf({}), later: {}, warnings: [] };
}

function parseServiceFile(text: string, path: string, name: string): ServiceFile {
  const file = parseYamlFile(text, name);
  const { content } = file;
  const unknown = Object.keys(content).find((key) => !KEYS.includes(key));
  if (unknown !== undefined) {
    throw new ConfigError(`${file.where([unknown])}: unknown key ${quote(unknown)}; known keys: ${KEYS.join(', ')}`);
  }
  const warnings = [...file.warnings];
  const warn = (at: KeyPath, warning: string): void => {
    warnings.push(`${file.where(at)}: ${warning}`);
  };
  const forwards = parseForwards(file, warn);
  const namespaces = parseNamespaces(file, warn);
  const bridgeGrpc = parseBridge(file, warn);
  for (const key of Object.keys(content).filter((known) => content[known] !== null)) {
    for (const warning of warnOfNoEffect([key])) warn([key], warning);
  }
  const later = Object.fromEntries(LATER_KEYS.filter((key) => key in content).map((key) => [key, content[key]]));
  return { path, forwards, namespaces, bridgeGrpc, later, warnings };
}

type Warn = (at: KeyPath, warning: string) => void;

function parseForwards(file: YamlFile, warn: Warn): ForwardEntry[] {
  const byName = new Map<string, ForwardEntry>();
  list(file, 'forwards').forEach((item, index) => {
    const path = ['forwards', index];
    const label = `forwards[${index}]`;
    const parsed = forwardEntry.safeParse(item, { error: wrongType });
    if (!parsed.success) {
      const { at, problem } = firstProblem(parsed.error);
      warn([...path, ...at], `${label} is left out: ${problem}`);
      return;
    }
    warnOfStrangers(item, forwardEntry, path, warn);
    const { name } = parsed.data;
    if (byName.has(name)) warn(path, `${label} is left out: the name ${quote(name)} is taken by an earlier entry`);
    else byName.set(name, parsed.data);
  });
  return [...byName.values()];
}

/** Only forwards have an entry left out: a namespace that silently does not exist would be a hole in the isolation. */
function parseNamespaces(file: YamlFile, warn: Warn): NamespaceEntry[] {
  const byName = new Map<string, NamespaceEntry>();
  list(file, 'namespaces').forEach((item, index) => {
    const path = ['namespaces', index];
    const label = `namespaces[${index}]`;
    const parsed = namespaceEntry.safeParse(typeof item === 'string' ? { name: item } : item, { error: wrongType });
    if (!parsed.success) {
      const { at, problem } = firstProblem(parsed.error);
      throw new ConfigError(`${file.where([...path, ...at])}: ${label}: ${problem}`);
    }
    warnOfStrangers(item, namespaceEntry, path, warn);
    const { name } = parsed.data;
    if (byName.has(name)) warn(path, `${label} is left out: the name ${quote(name)} is taken by an earlier entry`);
    else byName.set(name, parsed.data);
  });
  return [...byName.values()];
}

/** What is set wrongly ends the start: calls that wait for longer or shorter than meant are hard to find out about. */
function parseBridge(file: YamlFile, warn: Warn): BridgeGrpcSettings {
  const bridge = file.content.bridge ?? {};
  const parsed = bridgeEntry.safeParse(bridge);
  if (!parsed.success) {
    const { at, problem } = firstProblem(parsed.error);
    throw new ConfigError(`${file.where(['bridge', ...at])}: bridge: ${problem}`);
  }
  warnOfStrangers(bridge, bridgeEntry, ['bridge'], warn);
  const { grpc } = parsed.data;
  if (!grpc) return bridgeGrpcOf({});
  warnOfStrangers(grpc, bridgeGrpcFile, ['bridge', 'grpc'], warn);
  return bridgeGrpcOf(grpc);
}

/** The list under a key; an absent or empty key is an empty list. */
function list(file: YamlFile, key: string): readonly unknown[] {
  const value = file.content[key] ?? [];
  if (!Array.isArray(value)) throw new ConfigError(`${file.where([key])}: ${key}: is not a list`);
  return value;
}

/** Members that mean nothing are most likely mistyped ones that mean something. */
function warnOfStrangers(item: unknown, schema: z.ZodObject, path: KeyPath, warn: Warn): void {
  if (typeof item !== 'object' || item === null) return;
  const known = Object.keys(schema.shape);
  for (const member of Object.keys(item)) {
    if (known.includes(member)) continue;
    warn([...path, member], `unknown member ${quote(member)} is ignored; known members: ${known.join(', ')}`);
  }
}

/** What is missing or of the wrong type, for someone who writes YAML; every other rule has its words in the contract. */
const wrongType: z.core.$ZodErrorMap = ({ code, input, expected }) => {
  if (code !== 'invalid_type') return undefined;
  if (input === undefined) return 'is missing';
  const article = /^[aeiou]/.test(expected) ? 'an' : 'a';
  // A name such as 007 or true is a number or a truth value to YAML.
  const hint = expected === 'string' && typeof input !== 'object' ? '; quote it' : '';
  return `is not ${article} ${expected}${hint}`;
};

function firstProblem(error: z.ZodError): { at: KeyPath; problem: string } {
  const [issue] = error.issues;
  if (issue === undefined) return { at: [], problem: 'is not valid' };
  const member = issue.path.map(String).join('.');
  return { at: issue.path, problem: member === '' ? issue.message : `${member} ${issue.message}` };
}
