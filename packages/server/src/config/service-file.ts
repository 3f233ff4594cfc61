import { dirname, resolve } from 'node:path';
import { type ForwardEntry, forwardEntry, type NamespaceEntry, namespaceEntry } from './bootstrap-entries.ts';
import { type FileEvaluators, parseEvaluators } from './bootstrap-evaluators.ts';
import { type BridgeGrpcSettings, bridgeEntry, bridgeGrpcFile, bridgeGrpcOf } from './bridge-grpc.ts';
import { ConfigError } from './config-error.ts';
import { firstProblem, listAt, type Warn, warnOfStrangers, wrongType } from './file-entry.ts';
import { type LlmConnection, parseLlmConnections } from './llm-connections.ts';
import { quote } from './setting.ts';
import { warnOfNoEffect } from './without-effect.ts';
import { type KeyPath, parseYamlFile, readTextFile, type YamlFile } from './yaml-file.ts';

/** Keys that are known here and read by the parts that they belong to. */
const LATER_KEYS = ['plugins'] as const;
const KEYS: readonly string[] = ['forwards', 'namespaces', 'evaluators', 'llm_connections', ...LATER_KEYS, 'bridge'];

/** The bootstrap file (decisions 1.3). */
export interface ServiceFile extends FileEvaluators {
  /** Absolute; undefined when there is no file. */
  readonly path: string | undefined;
  /** Where relative paths start, absolute: the file's folder, or the working directory when there is no file. */
  readonly folder: string;
  readonly forwards: readonly ForwardEntry[];
  readonly namespaces: readonly NamespaceEntry[];
  readonly llmConnections: readonly LlmConnection[];
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
  if (text !== undefined) return { path, folder: dirname(path), ...contentOf(parseYamlFile(text, name)) };
  if (flag !== undefined) throw new ConfigError(`${name}: no such file; name one that exists or leave the flag out`);
  return { path: undefined, folder: cwd, ...contentOf(parseYamlFile('', name)) };
}

function contentOf(file: YamlFile): Omit<ServiceFile, 'path' | 'folder'> {
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
  const llmConnections = parseLlmConnections(file, warn);
  const evaluators = parseEvaluators(file, warn);
  const bridgeGrpc = parseBridge(file, warn);
  for (const key of Object.keys(content).filter((known) => content[known] !== null)) {
    for (const warning of warnOfNoEffect([key])) warn([key], warning);
  }
  const later = Object.fromEntries(LATER_KEYS.filter((key) => key in content).map((key) => [key, content[key]]));
  return { forwards, namespaces, llmConnections, ...evaluators, bridgeGrpc, later, warnings };
}

function parseForwards(file: YamlFile, warn: Warn): ForwardEntry[] {
  const byName = new Map<string, ForwardEntry>();
  listAt(file, 'forwards').forEach((item, index) => {
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
  listAt(file, 'namespaces').forEach((item, index) => {
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
