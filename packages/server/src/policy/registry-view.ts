import { memberText } from '@sluice/protocol/json/text';
import type { Draft } from '../registry/draft.ts';
import { byOrder, DEFAULT_NAMESPACE, type Entry, parseNamespace } from '../registry/entries.ts';
import type { EntryIndex } from '../registry/entry-index.ts';
import { copyTools, definitionBytes, type ToolCopy } from '../registry/operations-topology.ts';
import type { Registry } from '../registry/registry.ts';
import type { Snapshot } from '../registry/snapshot.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import { ActionFailure, type HostFunctions, type ToolEntry } from './sandbox/action.ts';

/** Maximum number of copies per run: different tools and targets. */
const MAX_COPIES = 10_000;
/** Maximum size of the copied definitions per run: each copy has its own. */
const MAX_COPIED_BYTES = 16 * 1024 * 1024;
/** Maximum number of namespaces that the copies of a run create. */
const MAX_NEW_NAMESPACES = 100;
/** Maximum number of tool names in a log line, and of log lines per message. */
const MAX_LOGGED_TOOLS = 20;
const MAX_LOGGED_NAMESPACES = 20;

/** Options of {@link RegistryView}. */
export interface RegistryViewOptions {
  readonly registry: Registry;
  /** Shared by all runs of a registry. */
  readonly toolLists: ToolListCache;
  /** Logger of the run, for the result of the commit; undefined for a run that is not committed. */
  readonly log?: TargetLogger;
  /** Namespace of the request. */
  readonly namespace: string;
}

/**
 * The registry as one run of an action sees and changes it: a snapshot, and the copies of the run itself. The copies are visible
 * to others when {@link commit} has resolved; a failed run is not committed.
 */
export class RegistryView implements Pick<HostFunctions, 'tools' | 'tool' | 'copyTool'> {
  readonly #options: RegistryViewOptions;
  /** Registry at the start of the run. */
  readonly #snapshot: Snapshot;
  /** All requested copies by target namespace and name; each is also in one of the following lists. */
  readonly #requested = new Map<string, Map<string, ToolCopy>>();
  readonly #copies: ToolCopy[] = [];
  /** Copies that are not created: the target namespace has a tool of that name. */
  readonly #existing: ToolCopy[] = [];
  #newNamespaces = 0;
  #copiedBytes = 0;

  constructor(options: RegistryViewOptions) {
    this.#options = options;
    this.#snapshot = options.registry.current;
  }

  /** Returns the served tools of a namespace, or of all, in order of registration: JSON of `ToolEntry[]`. */
  tools(namespace?: string): string {
    const { toolLists } = this.#options;
    const list =
      namespace === undefined ? toolLists.forAll(this.#snapshot) : toolLists.forNamespace(this.#snapshot, namespace);
    const copies = this.#copies.filter((copy) => namespace === undefined || copy.targetNamespace === namespace);
    return appendTools(
      list,
      copies.map(({ tool, targetNamespace }) => toolJson(tool, targetNamespace)),
    );
  }

  /** Returns the tool with this name: in the request's namespace, else in `default`, else the first registered one. */
  tool(name: string): ToolEntry | undefined {
    const found = this.#find(name);
    return found && { ...toToolEntry(found.tool), namespace: found.targetNamespace };
  }

  /**
   * Copies the tool that {@link tool} finds to a namespace, which is created if necessary. Returns false if there is no
   * such tool or the namespace name is invalid, and true if the namespace already has a tool of that name, which remains.
   * Throws ActionFailure `limit` for more than 10,000 copies, 16 MiB of definitions or 100 new namespaces.
   */
  copyTool(name: string, namespace: string): boolean {
    const targetNamespace = parseNamespace(namespace);
    const found = targetNamespace && this.#find(name);
    if (!found) return false;
    const requested = this.#requested.get(targetNamespace) ?? new Map<string, ToolCopy>();
    if (requested.has(name)) return true;
    if (this.#copies.length + this.#existing.length === MAX_COPIES) {
      throw new ActionFailure('limit', `more than ${MAX_COPIES} tool copies in one run`);
    }
    if (!this.#requested.has(targetNamespace) && !this.#snapshot.namespace(targetNamespace)) this.#countNamespace();
    const copy = { tool: found.tool, targetNamespace };
    const exists = this.#snapshot.namespace(targetNamespace)?.indexes.tool.owner(name) !== undefined;
    if (!exists) this.#countBytes(found.tool);
    this.#requested.set(targetNamespace, requested.set(name, copy));
    if (exists) this.#existing.push(copy);
    else this.#copies.push(copy);
    return true;
  }

  /**
   * Commits the copies atomically and logs those that were not created: the tool has been deleted, or the target has a tool
   * of that name. Call it once, after the run. Rejects with the error of the store, and then nothing was copied. If
   * `isApplicable` returns false, nothing is copied.
   */
  async commit(isApplicable: (draft: Draft) => boolean = () => true): Promise<void> {
    const copies = this.#copies;
    const { registry, namespace } = this.#options;
    const copy = (draft: Draft) => (isApplicable(draft) ? copyTools(draft, copies) : []);
    const origin = { actor: 'action', reason: `copy tools of namespace ${namespace}` } as const;
    const outcomes = copies.length > 0 ? (await registry.commit(copy, origin)).value : [];
    const existing = [...this.#existing, ...copies.filter((_, at) => outcomes[at] === 'exists')];
    this.#logCopies('info', 'tools not copied: target namespace has tools with these names', existing);
    const deleted = copies.filter((_, at) => outcomes[at] === 'gone');
    this.#logCopies('warn', 'tools not copied: deleted during the run', deleted);
  }

  /** The copies that {@link commit} makes. */
  get copies(): readonly ToolCopy[] {
    return this.#copies;
  }

  #countNamespace(): void {
    this.#newNamespaces++;
    if (this.#newNamespaces <= MAX_NEW_NAMESPACES) return;
    throw new ActionFailure('limit', `more than ${MAX_NEW_NAMESPACES} new namespaces in one run`);
  }

  #countBytes(tool: Entry): void {
    this.#copiedBytes += definitionBytes(tool);
    if (this.#copiedBytes <= MAX_COPIED_BYTES) return;
    throw new ActionFailure('limit', 'more than 16 MiB of copied tool definitions in one run');
  }

  #logCopies(level: 'info' | 'warn', message: string, copies: readonly ToolCopy[]): void {
    const { log } = this.#options;
    if (!log) return;
    const groups = [...Map.groupBy(copies, ({ targetNamespace }) => targetNamespace)];
    if (groups.length > MAX_LOGGED_NAMESPACES) log[level](message, { target_namespaces: groups.length });
    for (const [namespace, group] of groups.slice(0, MAX_LOGGED_NAMESPACES)) {
      const tools = group.slice(0, MAX_LOGGED_TOOLS).map(({ tool }) => tool.key);
      const more = group.length > MAX_LOGGED_TOOLS ? group.length - MAX_LOGGED_TOOLS : undefined;
      log[level](message, { target_namespace: namespace, tools, more });
    }
  }

  /** Returns a tool of the snapshot and a namespace that has it: its own, or one to which the run copied it. */
  #find(name: string): ToolCopy | undefined {
    return (
      this.#findIn(this.#options.namespace, name) ??
      this.#findIn(DEFAULT_NAMESPACE, name) ??
      this.#findInAllNamespaces(name)
    );
  }

  #findIn(namespace: string, name: string): ToolCopy | undefined {
    const tool = this.#snapshot.namespace(namespace)?.indexes.tool.served(name);
    return tool ? { tool, targetNamespace: tool.namespace } : this.#requested.get(namespace)?.get(name);
  }

  /** Copies of the run are not searched: they are registered later than their sources. */
  #findInAllNamespaces(name: string): ToolCopy | undefined {
    let first: Entry | undefined;
    for (const { indexes } of this.#snapshot.namespaces.values()) {
      const tool = indexes.tool.served(name);
      if (tool && (!first || byOrder(tool, first) < 0)) first = tool;
    }
    return first && { tool: first, targetNamespace: first.namespace };
  }
}

/** Consecutive tools of a namespace with the same registration: those of one forward, or one other tool. */
interface ToolRun {
  readonly registrationId: number;
  readonly tools: readonly Entry[];
  /** JSON of the tools, joined with commas. */
  readonly json: string;
}

/**
 * Cache of tool lists for actions: JSON of `ToolEntry[]`, by the immutable objects that they are built from. After a
 * commit only changed tools are serialized again; the rest is only joined.
 */
export class ToolListCache {
  readonly #tools = new WeakMap<Entry, string>();
  readonly #runs = new WeakMap<EntryIndex, readonly ToolRun[]>();
  readonly #namespaces = new WeakMap<EntryIndex, string>();
  readonly #snapshots = new WeakMap<Snapshot, string>();

  /** Returns the tools of a namespace in the order of lists; none if it does not exist. */
  forNamespace(snapshot: Snapshot, namespace: string): string {
    const index = snapshot.namespace(namespace)?.indexes.tool;
    if (!index) return '[]';
    return this.#namespaces.getOrInsertComputed(index, () => arrayJson(this.#runsOf(index).map(({ json }) => json)));
  }

  /** Returns the tools of all namespaces in order of registration. */
  forAll(snapshot: Snapshot): string {
    return this.#snapshots.getOrInsertComputed(snapshot, () => {
      const runs = [...snapshot.namespaces.values()].flatMap(({ indexes }) => this.#runsOf(indexes.tool));
      const byRegistration = [...Map.groupBy(runs, ({ registrationId }) => registrationId)].sort(([a], [b]) => a - b);
      return arrayJson(byRegistration.map(([, group]) => this.#mergeRuns(group)));
    });
  }

  #runsOf(index: EntryIndex): readonly ToolRun[] {
    return this.#runs.getOrInsertComputed(index, () => {
      const byRegistration = [...Map.groupBy(index.entries, (tool) => tool.registrationId)];
      return byRegistration.map(([registrationId, tools]) => ({ registrationId, tools, json: this.#join(tools) }));
    });
  }

  /** The tools of one forward may be in several namespaces, if an operator has moved some. */
  #mergeRuns(runs: readonly ToolRun[]): string {
    const [only, ...others] = runs;
    if (only && others.length === 0) return only.json;
    return this.#join(runs.flatMap(({ tools }) => tools).sort(byOrder));
  }

  #join(tools: readonly Entry[]): string {
    return tools.map((tool) => this.#tools.getOrInsertComputed(tool, () => toolJson(tool))).join(',');
  }
}

/** Returns a tool as exposed to actions; members that are missing, as in a file written by hand, are empty. */
export function toToolEntry(tool: Entry): ToolEntry {
  return {
    name: tool.key,
    description: JSON.parse(descriptionJson(tool)),
    uri: memberOf(tool, 'uri'),
    toolType: memberOf(tool, 'toolType'),
    namespace: tool.namespace,
  };
}

/** Returns the JSON of {@link toToolEntry} in this namespace, without parsing. */
function toolJson(tool: Entry, namespace = tool.namespace): string {
  const uri = JSON.stringify(memberOf(tool, 'uri'));
  const toolType = JSON.stringify(memberOf(tool, 'toolType'));
  const names = `"name":${JSON.stringify(tool.key)},"description":${descriptionJson(tool)}`;
  return `{${names},"uri":${uri},"toolType":${toolType},"namespace":"${namespace}"}`;
}

/** Appends tools to a list. */
function appendTools(list: string, tools: readonly string[]): string {
  if (tools.length === 0) return list;
  return list === '[]' ? arrayJson(tools) : `${list.slice(0, -1)},${tools.join(',')}]`;
}

/** JSON string of the description that clients see; of several variants, the first. */
function descriptionJson({ rendered }: Entry): string {
  const json = memberText(rendered[0]?.json ?? '{}', 'description');
  return json?.startsWith('"') ? json : '""';
}

function memberOf({ members }: Entry, name: 'uri' | 'toolType'): string {
  const value = members[name];
  return typeof value === 'string' ? value : '';
}

function arrayJson(elements: readonly string[]): string {
  return `[${elements.join(',')}]`;
}
