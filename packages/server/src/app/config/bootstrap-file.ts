import { dirname, resolve } from 'node:path';
import {
  type Evaluator,
  evaluatorInput,
  exposePatch,
  findUnknownMembers,
  forwardHeadersPatch,
  forwardInput,
  type IdentitySettings,
  labels,
  namespaceName,
  pluginId,
  unknownField,
  type ValidationIssue,
  validate,
} from '@sluice/contract';
import { parseLossless } from '@sluice/protocol/json/parse';
import { z } from 'zod';
import { referencesIn } from '../../http/secrets/secrets.ts';
import { ConfigError, quote } from '../../http/settings.ts';
import type { PluginTargets } from '../../management/plugins.ts';
import { type LlmConnection, llmConnectionEntry } from '../../policy/llm/client.ts';
import { DEFAULT_NAMESPACE, parseNamespace } from '../../registry/entries.ts';
import { ForwardKinds } from '../../upstreams/kinds.ts';
import { parseIdentity } from './bootstrap-identity.ts';
import { type BridgeGrpcSettings, bridgeEntry, bridgeGrpcEntry, toBridgeGrpcSettings } from './environment.ts';
import { formatPath, type KeyPath, parseYamlFile, readTextFile, type YamlFile } from './yaml-document.ts';

/** Content of the bootstrap file (`--service-config`). */
export interface BootstrapFile extends BootstrapEvaluators {
  /** Absolute; undefined without a file. */
  readonly path: string | undefined;
  /** Absolute folder that relative paths are resolved against: that of the file, or the working directory without one. */
  readonly folder: string;
  readonly forwards: readonly ForwardEntry[];
  readonly namespaces: readonly NamespaceEntry[];
  readonly llmConnections: readonly LlmConnection[];
  /** URLs of the services of plugins, by plugin and service. */
  readonly plugins: PluginTargets;
  /** Undefined without the key. */
  readonly identity: IdentitySettings | undefined;
  /** Settings under `bridge: grpc:`. */
  readonly bridgeGrpc: BridgeGrpcSettings;
  /** Skipped entries and unused keys, one line each with file, line and column. */
  readonly warnings: readonly string[];
}

/** Evaluators of the bootstrap file. */
interface BootstrapEvaluators {
  /** Undefined if the key is absent or empty, unlike an empty list, which removes all evaluators. */
  readonly evaluators: readonly Evaluator[] | undefined;
  /** Names of invalid evaluators that have a name. */
  readonly invalidEvaluators: readonly string[];
}

const DEFAULT_FILE = 'service.yaml';
const KEYS: readonly string[] = [
  'forwards',
  'namespaces',
  'evaluators',
  'llm_connections',
  'plugins',
  'bridge',
  'identity',
];

/**
 * Reads the bootstrap file: the one that `--service-config` names, else `service.yaml` in `cwd` if it exists. Throws
 * {@link ConfigError} if the named file is missing, or if the file cannot be parsed, has unknown top-level keys or an invalid
 * `identity`. `kinds` are those of the forwards.
 */
export async function loadBootstrapFile(
  flag: string | undefined,
  cwd: string,
  kinds: ForwardKinds = new ForwardKinds(),
): Promise<BootstrapFile> {
  const path = resolve(cwd, flag ?? DEFAULT_FILE);
  const name = flag === undefined ? path : `--service-config ${path}`;
  const text = await readTextFile(path, name);
  if (text !== undefined) {
    const folder = dirname(path);
    return { path, folder, ...(await parseBootstrapFile(parseYamlFile(text, name), folder, kinds)) };
  }
  if (flag !== undefined) throw new ConfigError(`${name}: no such file; check the path or omit the flag`);
  return { path: undefined, folder: cwd, ...(await parseBootstrapFile(parseYamlFile('', name), cwd, kinds)) };
}

async function parseBootstrapFile(
  file: YamlFile,
  folder: string,
  kinds: ForwardKinds,
): Promise<Omit<BootstrapFile, 'path' | 'folder'>> {
  const { content } = file;
  const unknown = Object.keys(content).find((key) => !KEYS.includes(key));
  if (unknown !== undefined) {
    throw new ConfigError(`${file.where([unknown])}: ${formatPath([unknown])} ${unknownField(KEYS)}`);
  }
  const { identity, identityWarnings } = await parseIdentity(file, folder);
  const warnings = [...file.warnings, ...identityWarnings];
  const warn: Source['warn'] = (at, warning) => void warnings.push(`${file.where(at)}: ${warning}`);
  const source = { ...file, warn };
  return {
    identity,
    forwards: unique(source, 'name', parseList(source, 'forwards', forwardEntry(kinds))),
    namespaces: parseNamespaces(source),
    llmConnections: parseLlmConnections(source),
    ...parseEvaluators(source),
    plugins: parsePlugins(source),
    bridgeGrpc: parseBridge(source),
    warnings,
  };
}

/** The file, and a function that records a warning for a position in it. */
interface Source extends YamlFile {
  readonly warn: (at: KeyPath, warning: string) => void;
}

/** A valid entry of a list. */
interface ListEntry<Value> {
  readonly value: Value;
  readonly path: KeyPath;
}

/**
 * Yields the valid entries of the list under a key. An invalid one is skipped with a warning or, if all are required, ends with
 * {@link ConfigError}.
 */
function* parseList<Schema extends z.ZodObject>(
  source: Source,
  key: string,
  schema: Schema,
  { isRequired = false, items = readList(source, key) } = {},
): Generator<ListEntry<z.output<Schema>>> {
  for (const [index, item] of items.entries()) {
    const path = [key, index];
    const parsed = schema.safeParse(item, { error: wrongType });
    if (parsed.success) {
      warnUnknownKeys(source, item, schema, path);
      yield { value: parsed.data, path };
      continue;
    }
    const { at, problem } = firstProblem(parsed.error);
    if (isRequired) throw new ConfigError(`${source.where([...path, ...at])}: ${formatPath(path)}: ${problem}`);
    source.warn([...path, ...at], `${formatPath(path)} is skipped: ${problem}`);
  }
}

/** Returns the values of entries; a duplicate of this member is skipped with a warning. */
function unique<Member extends string, Value extends Readonly<Record<Member, string>>>(
  { warn }: Source,
  member: Member,
  entries: Iterable<ListEntry<Value>>,
): Value[] {
  const values = new Map<string, Value>();
  for (const { value, path } of entries) {
    const id = value[member];
    if (values.has(id)) warn(path, `${formatPath(path)} is skipped: duplicate ${member} ${quote(id)}`);
    else values.set(id, value);
  }
  return [...values.values()];
}

/** Schema of an entry of `plugins`. */
const pluginEntry = z.object(
  {
    id: pluginId,
    services: z.record(
      pluginId,
      z.object({
        target: z.string().refine(isHttpUrl, 'must be an http or https URL without credentials, query and hash'),
      }),
    ),
  },
  { error: 'must be a map with id and services' },
);

function isHttpUrl(text: string): boolean {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || (url.protocol !== 'http:' && url.protocol !== 'https:')) return false;
  return url.username === '' && url.password === '' && url.search === '' && url.hash === '';
}

/** Parses `plugins`: the addresses of their services. */
function parsePlugins(source: Source): PluginTargets {
  const plugins = unique(source, 'id', parseList(source, 'plugins', pluginEntry));
  const targets = plugins.map(({ id, services }) => {
    return [id, new Map(Object.entries(services).map(([name, { target }]) => [name, target]))] as const;
  });
  return new Map(targets);
}

/** The contract's schema, with the registry's type. */
const namespace = namespaceName.transform((name, context) => {
  const parsed = parseNamespace(name);
  if (parsed === undefined) {
    context.addIssue('must be a namespace name');
    return z.NEVER;
  }
  return parsed;
});

/** Schema of an entry of `forwards`: that of the management API, with defaults. */
function forwardEntry(kinds: ForwardKinds) {
  return z.object(
    {
      ...forwardInput.shape,
      address: forwardInput.shape.address.refine((address) => kinds.problem(address) === undefined, {
        error: ({ input }) => kinds.problem(String(input)),
      }),
      namespace: namespace.default(DEFAULT_NAMESPACE),
      labels: labels.default({}),
      headers: forwardHeadersPatch.nullish(),
      expose: exposePatch.nullish(),
    },
    { error: 'must be a map with name and address' },
  );
}

/** Upstream MCP server to register. */
type ForwardEntry = Readonly<z.output<ReturnType<typeof forwardEntry>>>;

/** Schema of an entry of `namespaces` in its long form; the short form is the name. */
const namespaceEntry = z.object(
  {
    name: namespace,
    /** Undefined: the labels of an existing namespace do not change. */
    labels: labels.optional(),
  },
  { error: 'must be a name or a map with name and labels' },
);

/** Namespace to create. */
type NamespaceEntry = Readonly<z.output<typeof namespaceEntry>>;

/** Unlike a forward, an invalid namespace is an error: without the namespace its entries would not be isolated. */
function parseNamespaces(source: Source): NamespaceEntry[] {
  const items = readList(source, 'namespaces').map((item) => (typeof item === 'string' ? { name: item } : item));
  return unique(source, 'name', parseList(source, 'namespaces', namespaceEntry, { isRequired: true, items }));
}

/** Invalid settings are errors: calls with a wrong timeout would be hard to diagnose. */
function parseBridge(source: Source): BridgeGrpcSettings {
  const bridge = source.content.bridge ?? {};
  const parsed = bridgeEntry.safeParse(bridge);
  if (!parsed.success) {
    const { at, problem } = firstProblem(parsed.error);
    throw new ConfigError(`${source.where(['bridge', ...at])}: bridge: ${problem}`);
  }
  warnUnknownKeys(source, bridge, bridgeEntry, ['bridge']);
  const grpc = parsed.data.grpc ?? {};
  warnUnknownKeys(source, grpc, bridgeGrpcEntry, ['bridge', 'grpc']);
  return toBridgeGrpcSettings(grpc);
}

/**
 * Parses `llm_connections`. Throws {@link ConfigError} for the first problem: an evaluator without its connection would be a gap
 * in the policy.
 */
function parseLlmConnections(source: Source): LlmConnection[] {
  const byName = new Map<string, LlmConnection>();
  const entries = parseList(source, 'llm_connections', llmConnectionEntry, { isRequired: true });
  for (const { value, path } of entries) {
    const { name, model, url, api_key: apiKey } = value;
    const label = formatPath(path);
    const warnAt = (key: string, warning: string) => source.warn([...path, key], `${label}: ${key} ${warning}`);
    if (/\/chat\/completions\/*$/.test(url)) {
      warnAt('url', 'ends with /chat/completions, which is appended automatically; remove it');
    }
    // The warnings do not contain the key: a real key may start with $ too.
    if (apiKey && referencesIn(apiKey).length === 0) {
      const what = apiKey.startsWith('$') ? 'starts with $ and is sent literally' : 'is written in the file';
      warnAt('api_key', `${what}: refer to a variable with $\{env:NAME} or to a file with $\{file:name} instead`);
    }
    if (byName.has(name)) {
      throw new ConfigError(`${source.where([...path, 'name'])}: ${label}: duplicate name ${quote(name)}`);
    }
    byName.set(name, { name, model, url, ...(apiKey && { apiKey }) });
  }
  return [...byName.values()];
}

/** Schema of the long form of `evaluators`: the body of `PUT /api/v1/evaluators`. */
const evaluatorsEntry = z.object({ evaluators: z.unknown() });

/**
 * Parses `evaluators`: a list, or `{evaluators: [...]}`. Skips an invalid evaluator with a warning for each problem; its action
 * and connection are checked later. Throws {@link ConfigError} if there is no list.
 */
function parseEvaluators(source: Source): BootstrapEvaluators {
  const value = source.content.evaluators ?? undefined;
  if (value === undefined) return { evaluators: undefined, invalidEvaluators: [] };
  const { path, list } = unwrapEvaluators(source, value);
  if (!Array.isArray(list)) throw new ConfigError(`${source.where(path)}: evaluators: must be a list of evaluators`);
  const evaluators: Evaluator[] = [];
  const invalidEvaluators: string[] = [];
  for (const [index, item] of list.entries()) {
    const input = toJson(item);
    for (const { path: at, known } of findUnknownMembers(input)) {
      warnUnknownKey(source, [...path, index, ...at], known);
    }
    const result = validate(evaluatorInput, input);
    if ('value' in result) {
      evaluators.push(result.value);
      continue;
    }
    for (const issue of result.issues) {
      const { at, problem } = evaluatorProblem(issue);
      source.warn([...path, index, ...at], `evaluators[${index}] is skipped: ${problem}`);
    }
    const name = evaluatorInput.shape.name.safeParse(Object(input).name).data;
    if (name) invalidEvaluators.push(name);
  }
  return { evaluators, invalidEvaluators };
}

function unwrapEvaluators(source: Source, value: unknown): { path: KeyPath; list: unknown } {
  if (typeof value !== 'object' || value === null || !('evaluators' in value)) {
    return { path: ['evaluators'], list: value };
  }
  warnUnknownKeys(source, value, evaluatorsEntry, ['evaluators']);
  return { path: ['evaluators', 'evaluators'], list: value.evaluators ?? [] };
}

function evaluatorProblem({ path, message }: ValidationIssue): { at: KeyPath; problem: string } {
  if (path === '') return { at: [], problem: 'must be a map with name, trigger, llm and processor' };
  return { at: path.split('.'), problem: `${path} ${message}` };
}

/** Returns the value as a request body would contain it; undefined if JSON cannot express it, such as a cyclic alias. */
function toJson(item: unknown): unknown {
  try {
    return parseLossless(JSON.stringify(item));
  } catch {
    return undefined;
  }
}

/** Returns the list under a key; an absent or empty key is an empty list. Throws {@link ConfigError} if it is no list. */
function readList(file: YamlFile, key: string): readonly unknown[] {
  const value = file.content[key] ?? [];
  if (!Array.isArray(value)) throw new ConfigError(`${file.where([key])}: ${key}: must be a list`);
  return value;
}

/** Warns of unknown keys, which are most likely misspelled. */
function warnUnknownKeys(source: Source, item: unknown, schema: z.ZodObject, path: KeyPath): void {
  if (typeof item !== 'object' || item === null) return;
  const known = Object.keys(schema.shape);
  for (const key of Object.keys(item)) {
    if (!known.includes(key)) warnUnknownKey(source, [...path, key], known);
  }
}

function warnUnknownKey({ warn }: Source, at: KeyPath, known: readonly string[]): void {
  warn(at, `${formatPath(at)} ${unknownField(known, 'is ignored')}`);
}

/** Messages for missing values and wrong types; the contract has the other messages. */
const wrongType: z.core.$ZodErrorMap = ({ code, input, expected }) => {
  if (code !== 'invalid_type') return undefined;
  if (input === undefined) return 'is missing';
  const article = /^[aeiou]/.test(expected) ? 'an' : 'a';
  // YAML reads a name such as 007 or true as a number or boolean.
  const hint = expected === 'string' && typeof input !== 'object' ? '; quote it' : '';
  return `must be ${article} ${expected}${hint}`;
};

/** Returns the first problem and its location below the value. Never contains the value. */
function firstProblem(error: z.ZodError): { at: KeyPath; problem: string } {
  const [issue] = error.issues;
  if (issue === undefined) return { at: [], problem: 'is not valid' };
  const member = issue.path.map(String).join('.');
  return { at: issue.path, problem: member === '' ? issue.message : `${member} ${issue.message}` };
}
