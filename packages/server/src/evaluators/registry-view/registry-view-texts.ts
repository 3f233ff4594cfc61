import { memberText } from '@sluice/protocol/json/scan';
import { byOrder, type Entry } from '../../registry/entries.ts';
import type { Shelf } from '../../registry/shelf.ts';
import type { Snapshot } from '../../registry/snapshot.ts';
import type { ToolEntry } from '../actions/action-world.ts';

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
  readonly #runs = new WeakMap<Shelf, readonly Run[]>();
  readonly #namespaces = new WeakMap<Shelf, string>();
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

  #runsOf(shelf: Shelf): readonly Run[] {
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
