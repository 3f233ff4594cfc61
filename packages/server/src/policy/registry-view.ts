import { memberText } from '@sluice/protocol/json/scan';
import type { Draft } from '../registry/draft.ts';
import { byOrder, DEFAULT_NAMESPACE, type Entry, type Namespace, parseNamespace } from '../registry/entries.ts';
import type { EntryIndex } from '../registry/index.ts';
import { type CopyOutcome, copyTools, definitionBytes, type ToolCopy } from '../registry/operations-topology.ts';
import type { Registry } from '../registry/registry.ts';
import type { Snapshot } from '../registry/snapshot.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import { ActionFailure, type HostAnswers, type ToolEntry } from './sandbox/action.ts';

/** Tools that follow on each other in a namespace's list and come from one forward, or one tool of another origin. */
interface Run {
  readonly source: number;
  readonly tools: readonly Entry[];
  /** Their JSON texts, with commas between them. */
  readonly text: string;
}

/**
 * Lists of tools as actions get them, JSON texts of `ToolEntry[]`. They are kept with what they were made of, which
 * never changes. After a commit the text of a tool is made anew where the tool is, and the rest is only joined again.
 */
export class ToolTexts {
  readonly #pieces = new WeakMap<Entry, string>();
  readonly #runs = new WeakMap<EntryIndex, readonly Run[]>();
  readonly #namespaces = new WeakMap<EntryIndex, string>();
  readonly #snapshots = new WeakMap<Snapshot, string>();

  /** The tools of one namespace, in the order of lists; none where there is no such namespace. */
  ofNamespace(snapshot: Snapshot, namespace: string): string {
    const shelf = snapshot.namespace(namespace)?.shelves.tool;
    if (!shelf) return '[]';
    return kept(this.#namespaces, shelf, () => listText(this.#runsOf(shelf).map(({ text }) => text)));
  }

  /** The tools of all namespaces, in order of registration. */
  ofAll(snapshot: Snapshot): string {
    return kept(this.#snapshots, snapshot, () => {
      const runs = [...snapshot.namespaces.values()].flatMap(({ shelves }) => this.#runsOf(shelves.tool));
      const bySource = [...Map.groupBy(runs, ({ source }) => source)].sort(([a], [b]) => a - b);
      return listText(bySource.map(([, ofSource]) => this.#merged(ofSource)));
    });
  }

  #runsOf(shelf: EntryIndex): readonly Run[] {
    return kept(this.#runs, shelf, () => {
      const bySource = [...Map.groupBy(shelf.entries, (tool) => tool.source)];
      return bySource.map(([source, tools]) => ({ source, tools, text: this.#joined(tools) }));
    });
  }

  /** Tools of one forward may be in several namespaces: an operator moved them. */
  #merged(runs: readonly Run[]): string {
    const [only, ...others] = runs;
    if (only && others.length === 0) return only.text;
    return this.#joined(runs.flatMap(({ tools }) => tools).sort(byOrder));
  }

  #joined(tools: readonly Entry[]): string {
    return tools.map((tool) => kept(this.#pieces, tool, () => toolText(tool))).join(',');
  }
}

/** A tool as an action gets it; what is not there, as in a file written by hand, is empty. */
export function toolEntry(tool: Entry): ToolEntry {
  const description: unknown = JSON.parse(descriptionText(tool));
  return {
    name: tool.key,
    description: typeof description === 'string' ? description : '',
    uri: memberOf(tool, 'uri'),
    toolType: memberOf(tool, 'toolType'),
    namespace: tool.namespace,
  };
}

/** As `JSON.stringify` of {@link toolEntry}, shown in another namespace perhaps; nothing is parsed for it. */
export function toolText(tool: Entry, namespace = tool.namespace): string {
  const uri = JSON.stringify(memberOf(tool, 'uri'));
  const toolType = JSON.stringify(memberOf(tool, 'toolType'));
  const names = `"name":${JSON.stringify(tool.key)},"description":${descriptionText(tool)}`;
  return `{${names},"uri":${uri},"toolType":${toolType},"namespace":"${namespace}"}`;
}

/** The list with these texts behind it. */
export function withTools(list: string, texts: readonly string[]): string {
  if (texts.length === 0) return list;
  return list === '[]' ? listText(texts) : `${list.slice(0, -1)},${texts.join(',')}]`;
}

/** What clients see of it, as JSON text of a string. Of several offers the first speaks for all. */
function descriptionText({ served }: Entry): string {
  const text = memberText(served[0]?.json ?? '{}', 'description');
  return text?.startsWith('"') ? text : '""';
}

function memberOf({ members }: Entry, name: 'uri' | 'toolType'): string {
  const value = members[name];
  return typeof value === 'string' ? value : '';
}

function listText(texts: readonly string[]): string {
  return `[${texts.join(',')}]`;
}

function kept<K extends WeakKey, V>(values: WeakMap<K, V>, key: K, make: () => V): V {
  const known = values.get(key);
  if (known !== undefined) return known;
  const made = make();
  values.set(key, made);
  return made;
}

/** Different tools and targets that a run can name to be copied. */
const MAX_COPIES = 10_000;
/** Of definitions, which may be large: each copy keeps its own. */
const MAX_COPIED_BYTES = 16 * 1024 * 1024;
/** Namespaces that a run can have made for its copies. */
const MAX_NEW_NAMESPACES = 100;
/** So many names of tools go into a line of the log, and so many namespaces have one of their own. */
const LOGGED_NAMES = 20;
const LOGGED_NAMESPACES = 20;

/** What one run is of. */
export interface RegistryViewOptions {
  readonly registry: Registry;
  /** Shared by all runs of a registry. */
  readonly texts: ToolTexts;
  /** Of the run. */
  readonly log: TargetLogger;
  /** That of the request. */
  readonly namespace: string;
}

/** A tool of the snapshot, and the namespace in which the run finds it: its own, or one that the run copied it into. */
interface Found {
  readonly tool: Entry;
  readonly namespace: Namespace;
}

/**
 * The registry as one run of an action sees it and changes it (decisions 2.11): as it was when the view was made, and
 * with what the run itself copied. Copies are there for others once {@link commit} has resolved; a run that did not end
 * well is simply not committed.
 */
export class RegistryView implements Pick<HostAnswers, 'tools' | 'tool' | 'copyTool'> {
  readonly #options: RegistryViewOptions;
  readonly #snapshot: Snapshot;
  /** What was asked for, by target namespace and name; each of it stands in one of the lists below too. */
  readonly #wanted = new Map<string, Map<string, ToolCopy>>();
  readonly #copies: ToolCopy[] = [];
  /** Copies that are not to be made: the target namespace had a tool of that name before. */
  readonly #held: ToolCopy[] = [];
  #newNamespaces = 0;
  #copiedBytes = 0;

  constructor(options: RegistryViewOptions) {
    this.#options = options;
    this.#snapshot = options.registry.current;
  }

  /** The tools of a namespace, or of all, that are served, in order of registration: JSON text of `ToolEntry[]`. */
  tools(namespace?: string): string {
    const { texts } = this.#options;
    const list = namespace === undefined ? texts.ofAll(this.#snapshot) : texts.ofNamespace(this.#snapshot, namespace);
    const copies = this.#copies.filter((copy) => namespace === undefined || copy.targetNamespace === namespace);
    return withTools(
      list,
      copies.map(({ tool, targetNamespace }) => toolText(tool, targetNamespace)),
    );
  }

  /** The tool of this name: that of the request's namespace, else of `default`, else the first registered elsewhere. */
  tool(name: string): ToolEntry | undefined {
    const found = this.#find(name);
    return found && { ...toolEntry(found.tool), namespace: found.namespace };
  }

  /**
   * Copies the tool that {@link tool} finds into a namespace, which may have to be created. False when there is no such
   * tool, or no namespace can have that name. A tool of the same name that is there already stays, and that is well too.
   * ActionFailure `limit` after 10,000 different copies, 16 MiB of definitions, or 100 namespaces that are not there yet.
   */
  copyTool(name: string, namespace: string): boolean {
    const targetNamespace = parseNamespace(namespace);
    const found = targetNamespace && this.#find(name);
    if (!found) return false;
    const wanted = this.#wanted.get(targetNamespace) ?? new Map<string, ToolCopy>();
    if (wanted.has(name)) return true;
    if (this.#copies.length + this.#held.length === MAX_COPIES) {
      throw new ActionFailure('limit', `more than ${MAX_COPIES} copies of tools were asked for in one run`);
    }
    if (!this.#wanted.has(targetNamespace) && !this.#snapshot.namespace(targetNamespace)) this.#countNew();
    const copy = { tool: found.tool, targetNamespace };
    const isHeld = this.#holder(targetNamespace, name) !== undefined;
    if (!isHeld) this.#countBytes(found.tool);
    this.#wanted.set(targetNamespace, wanted.set(name, copy));
    if (isHeld) this.#held.push(copy);
    else this.#copies.push(copy);
    return true;
  }

  /**
   * Makes the copies, all in one commit; resolves once they are there for everybody, and at once where there are none.
   * What was not copied is told to the log: a tool that has meanwhile gone, or a name that the target has already.
   * Rejects with the store's error, and then nothing was copied. To be called once, after the run. `isWanted` is asked
   * when it is their turn: without it, nothing is copied.
   */
  async commit(isWanted: (draft: Draft) => boolean = () => true): Promise<void> {
    const copies = this.#copies;
    const copy = (draft: Draft) => (isWanted(draft) ? copyTools(draft, copies) : []);
    const outcomes: readonly CopyOutcome[] = copies.length > 0 ? await this.#options.registry.commit(copy) : [];
    const held = [...this.#held, ...copies.filter((_, at) => outcomes[at] === 'held')];
    this.#tell('info', 'tools were not copied: the namespace has tools of these names', held);
    const gone = copies.filter((_, at) => outcomes[at] === 'gone');
    this.#tell('warn', 'tools were not copied: they have just been removed', gone);
  }

  #countNew(): void {
    this.#newNamespaces++;
    if (this.#newNamespaces <= MAX_NEW_NAMESPACES) return;
    throw new ActionFailure('limit', `more than ${MAX_NEW_NAMESPACES} namespaces were to be made in one run`);
  }

  #countBytes(tool: Entry): void {
    this.#copiedBytes += definitionBytes(tool);
    if (this.#copiedBytes <= MAX_COPIED_BYTES) return;
    throw new ActionFailure('limit', 'more than 16 MiB of definitions of tools were to be copied in one run');
  }

  #tell(level: 'info' | 'warn', message: string, copies: readonly ToolCopy[]): void {
    const { log } = this.#options;
    const groups = [...Map.groupBy(copies, ({ targetNamespace }) => targetNamespace)];
    if (groups.length > LOGGED_NAMESPACES) log[level](message, { target_namespaces: groups.length });
    for (const [namespace, group] of groups.slice(0, LOGGED_NAMESPACES)) {
      const tools = group.slice(0, LOGGED_NAMES).map(({ tool }) => tool.key);
      const more = group.length > LOGGED_NAMES ? group.length - LOGGED_NAMES : undefined;
      log[level](message, { target_namespace: namespace, tools, more });
    }
  }

  #find(name: string): Found | undefined {
    return (
      this.#findIn(this.#options.namespace, name) ?? this.#findIn(DEFAULT_NAMESPACE, name) ?? this.#findAnywhere(name)
    );
  }

  #findIn(namespace: string, name: string): Found | undefined {
    const tool = this.#holder(namespace, name);
    if (tool) return { tool, namespace: tool.namespace };
    const copy = this.#wanted.get(namespace)?.get(name);
    return copy && { tool: copy.tool, namespace: copy.targetNamespace };
  }

  /** What this run copies is registered later than what it is copied from. */
  #findAnywhere(name: string): Found | undefined {
    let first: Entry | undefined;
    for (const { shelves } of this.#snapshot.namespaces.values()) {
      const tool = shelves.tool.get(name);
      if (tool && (!first || byOrder(tool, first) < 0)) first = tool;
    }
    return first && { tool: first, namespace: first.namespace };
  }

  #holder(namespace: string, name: string): Entry | undefined {
    return this.#snapshot.namespace(namespace)?.shelves.tool.get(name);
  }
}
