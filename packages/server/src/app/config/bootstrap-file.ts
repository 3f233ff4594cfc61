import { dirname, resolve } from 'node:path';
import {
  type Evaluator,
  evaluatorInput,
  findUnknownMembers,
  forwardInput,
  labels,
  namespaceName,
  type ValidationIssue,
  validate,
} from '@sluice/contract';
import { parseLossless } from '@sluice/protocol/json/parse';
import { z } from 'zod';
import { baseUrl, ConfigError, InvalidSettingError, quote } from '../../http/address.ts';
import { DEFAULT_NAMESPACE, parseNamespace } from '../../registry/entries.ts';
import { type BridgeGrpcSettings, bridgeEntry, bridgeGrpcFile, bridgeGrpcOf } from './environment.ts';
import { type KeyPath, parseYamlFile, readTextFile, type YamlFile } from './yaml-document.ts';

/** The contract's rule, as the registry's type. */
const namespace = namespaceName.transform((name, context) => {
  const parsed = parseNamespace(name);
  if (parsed === undefined) {
    context.addIssue('is not a namespace name');
    return z.NEVER;
  }
  return parsed;
});

/**
 * An entry of `forwards` (decisions 1.3 and 2.4): what the management API takes, by the same rules, with the defaults
 * filled in. Members besides these are dropped.
 */
export const forwardEntry = z.object(
  {
    ...forwardInput.shape,
    namespace: namespace.default(DEFAULT_NAMESPACE),
    labels: labels.default({}),
  },
  { error: 'is not a map with name and address' },
);

/** An upstream MCP server to register. `prefix` is undefined for none. */
export type ForwardEntry = Readonly<z.output<typeof forwardEntry>>;

/** An entry of `namespaces` in its long form (decisions 1.3); the short form is the name alone. */
export const namespaceEntry = z.object(
  {
    name: namespace,
    /** Undefined: a namespace that exists keeps the labels it has. */
    labels: labels.optional(),
  },
  { error: 'is neither a name nor a map with name and labels' },
);

/** A namespace to create. */
export type NamespaceEntry = Readonly<z.output<typeof namespaceEntry>>;

/** Notes a warning of what stands at a place in the file. */
export type Warn = (at: KeyPath, warning: string) => void;

/** The list under a key; an absent or empty key is an empty list. Throws {@link ConfigError} for anything else. */
export function listAt(file: YamlFile, key: string): readonly unknown[] {
  const value = file.content[key] ?? [];
  if (!Array.isArray(value)) throw new ConfigError(`${file.where([key])}: ${key}: is not a list`);
  return value;
}

/** Members that mean nothing are most likely mistyped ones that mean something. */
export function warnUnknownKeys(item: unknown, schema: z.ZodObject, path: KeyPath, warn: Warn): void {
  if (typeof item !== 'object' || item === null) return;
  const known = Object.keys(schema.shape);
  for (const member of Object.keys(item)) {
    if (known.includes(member)) continue;
    warn([...path, member], `unknown member ${quote(member)} is ignored; known members: ${known.join(', ')}`);
  }
}

/** What is missing or of the wrong type, for someone who writes YAML; every other rule has its words in the contract. */
export const wrongType: z.core.$ZodErrorMap = ({ code, input, expected }) => {
  if (code !== 'invalid_type') return undefined;
  if (input === undefined) return 'is missing';
  const article = /^[aeiou]/.test(expected) ? 'an' : 'a';
  // A name such as 007 or true is a number or a truth value to YAML.
  const hint = expected === 'string' && typeof input !== 'object' ? '; quote it' : '';
  return `is not ${article} ${expected}${hint}`;
};

/** The first thing that is wrong, and where below the value. It never repeats the value. */
export function firstProblem(error: z.ZodError): { at: KeyPath; problem: string } {
  const [issue] = error.issues;
  if (issue === undefined) return { at: [], problem: 'is not valid' };
  const member = issue.path.map(String).join('.');
  return { at: issue.path, problem: member === '' ? issue.message : `${member} ${issue.message}` };
}

const SECTION = 'evaluators';

/** The long form: the body of `PUT /api/v1/evaluators`, so that one can be pasted. */
const longForm = z.object({ [SECTION]: z.unknown() });

/** The evaluators of the file. */
export interface FileEvaluators {
  /** Undefined when the key is absent or empty, which is not the same as an empty list: that clears them. */
  readonly evaluators: readonly Evaluator[] | undefined;
  /** Names of those that were left out, as far as they have any. */
  readonly unreadableEvaluators: readonly string[];
}

/**
 * What stands under `evaluators`: a list of evaluators, or `{evaluators: [...]}` (decisions 1.3). An evaluator that is not
 * one is left out, with a warning for each reason; whether one can be loaded is found out later. Throws
 * {@link ConfigError} for what is no list.
 */
export function parseEvaluators(file: YamlFile, warn: Warn): FileEvaluators {
  const given = file.content[SECTION] ?? undefined;
  if (given === undefined) return { evaluators: undefined, unreadableEvaluators: [] };
  const { path, list } = listOf(given, warn);
  if (!Array.isArray(list)) throw new ConfigError(`${file.where(path)}: ${SECTION}: is not a list of evaluators`);
  const evaluators: Evaluator[] = [];
  const unreadableEvaluators: string[] = [];
  for (const [index, item] of list.entries()) {
    const submitted = asJson(item);
    for (const { path: at, known } of findUnknownMembers(submitted)) {
      const ignored = `unknown member ${quote(at.join('.'))} is ignored; known members: ${known.join(', ')}`;
      warn([...path, index, ...at], ignored);
    }
    const result = validate(evaluatorInput, submitted);
    if ('value' in result) {
      evaluators.push(result.value);
      continue;
    }
    for (const refusal of result.issues) {
      const { at, problem } = problemOf(refusal);
      warn([...path, index, ...at], `${SECTION}[${index}] is left out: ${problem}`);
    }
    const name = evaluatorInput.shape.name.safeParse(Object(submitted).name).data;
    if (name) unreadableEvaluators.push(name);
  }
  return { evaluators, unreadableEvaluators };
}

function listOf(given: unknown, warn: Warn): { path: KeyPath; list: unknown } {
  if (typeof given !== 'object' || given === null || !(SECTION in given)) return { path: [SECTION], list: given };
  warnUnknownKeys(given, longForm, [SECTION], warn);
  return { path: [SECTION, SECTION], list: given[SECTION] ?? [] };
}

function problemOf({ path, message }: ValidationIssue): { at: KeyPath; problem: string } {
  if (path === '') return { at: [], problem: 'is not a map with name, trigger, llm and processor' };
  return { at: path.split('.'), problem: `${path} ${message}` };
}

/** What a request would have carried; undefined for what JSON has no form for, such as an alias to what it stands in. */
function asJson(item: unknown): unknown {
  try {
    return parseLossless(JSON.stringify(item));
  } catch {
    return undefined;
  }
}

/**
 * An endpoint that evaluators ask (specification, "LLM connection"). Only its name is ever answered, stored or logged;
 * the rest stays in this process.
 */
export interface LlmConnection {
  readonly name: string;
  readonly model: string;
  /** Without a slash at its end: paths are appended to it. */
  readonly url: string;
  /** Sent as a bearer token; undefined for none. */
  readonly apiKey?: string;
}

const filled = z.string().trim().min(1, 'must not be empty');

/** What a header can carry, and nothing that would end it. */
const API_KEY = /^[\x21-\x7e]*$/;

const entry = z.object(
  {
    name: filled.max(256, 'must have at most 256 characters').refine((name) => !/\p{Cc}/u.test(name), {
      error: 'must not contain control characters',
    }),
    model: filled,
    url: filled.superRefine((url, context) => {
      try {
        baseUrl.parse(url);
      } catch (error) {
        if (!(error instanceof InvalidSettingError)) throw error;
        context.addIssue(`${error.message}; accepted: ${baseUrl.accepts}`);
      }
    }),
    // A key that a template put there has a line break at its end, or is empty.
    api_key: z.string().trim().regex(API_KEY, 'must be printable ASCII without blanks').nullish(),
  },
  { error: 'is not a map with name, model and url' },
);

/**
 * What stands under `llm_connections` (decisions 1.3). Throws {@link ConfigError} for the first thing that is wrong: an
 * evaluator that silently asks nobody would be a hole in the policy.
 */
export function parseLlmConnections(file: YamlFile, warn: Warn): LlmConnection[] {
  const byName = new Map<string, LlmConnection>();
  listAt(file, 'llm_connections').forEach((item, index) => {
    const path = ['llm_connections', index];
    const refuse = (at: readonly PropertyKey[], problem: string): ConfigError =>
      new ConfigError(`${file.where([...path, ...at])}: llm_connections[${index}]: ${problem}`);
    const parsed = entry.safeParse(item, { error: wrongType });
    if (!parsed.success) {
      const { at, problem } = firstProblem(parsed.error);
      throw refuse(at, problem);
    }
    warnUnknownKeys(item, entry, path, warn);
    const { name, model, url, api_key: apiKey } = parsed.data;
    const warnOf = (member: string, warning: string) =>
      warn([...path, member], `llm_connections[${index}]: ${member} ${warning}`);
    if (/\/chat\/completions\/*$/.test(url)) {
      warnOf('url', 'ends in /chat/completions, which is appended to it: write what stands before that');
    }
    // Never with the key, which may begin so.
    if (apiKey?.startsWith('$')) {
      warnOf('api_key', 'begins with $ and is sent as it stands here: nothing puts environment variables in its place');
    }
    if (byName.has(name)) throw refuse(['name'], `the name ${quote(name)} is taken by an earlier entry`);
    byName.set(name, { name, model, url: baseUrl.parse(url), ...(apiKey && { apiKey }) });
  });
  return [...byName.values()];
}

/**
 * Settings that are known and checked, but that no part of this version acts on: environment variables, flags, and
 * top-level keys of the service-config file. Whoever adds the part that acts on one deletes its line here.
 */
const WITHOUT_EFFECT: readonly string[] = ['SERVICE_UI_PATH', '--plugins-path', 'plugins'];

/** One warning for each of the settings given that changes nothing, so that nobody relies on it. */
export function warnUnusedSettings(settings: readonly string[]): string[] {
  return settings
    .filter((setting) => WITHOUT_EFFECT.includes(setting))
    .map((setting) => `${setting} has no effect in this version`);
}

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
    for (const warning of warnUnusedSettings([key])) warn([key], warning);
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
    warnUnknownKeys(item, forwardEntry, path, warn);
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
    warnUnknownKeys(item, namespaceEntry, path, warn);
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
  warnUnknownKeys(bridge, bridgeEntry, ['bridge'], warn);
  const { grpc } = parsed.data;
  if (!grpc) return bridgeGrpcOf({});
  warnUnknownKeys(grpc, bridgeGrpcFile, ['bridge', 'grpc'], warn);
  return bridgeGrpcOf(grpc);
}
