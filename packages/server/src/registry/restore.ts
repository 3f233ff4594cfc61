import { Draft } from './draft.ts';
import { type Entry, KINDS, type Kind, SECTION } from './entries.ts';
import { DEFAULT_NAMESPACE } from './names.ts';
import { Snapshot } from './snapshot.ts';
import { type Change, type Loaded, SECTIONS, type Section } from './store/store.ts';
import { readForward, readNamespace, readService } from './stored.ts';
import { LARGEST_SOURCE, readEntry } from './stored-entry.ts';

/**
 * Builds the state from what was stored (decisions 1.5): the entries of `registry.json`, then the commits that came
 * after. `problems` say, one text each, which records cannot be used; they are kept as they are, except for entries
 * whose forward is gone: those would not come back in any way.
 */
export function restore(loaded: Loaded): { snapshot: Snapshot; problems: string[] } {
  return new Restoration(loaded).run();
}

class Restoration {
  readonly #loaded: Loaded;
  readonly #draft = new Draft(Snapshot.empty(), false);
  readonly #problems: string[] = [];
  /** Entries whose keys others held: who is put first holds, so these are put last, wherever they stand in the file. */
  readonly #shadowed: Entry[] = [];
  #numbered = false;

  constructor(loaded: Loaded) {
    this.#loaded = loaded;
  }

  run(): { snapshot: Snapshot; problems: string[] } {
    const { entries, journal } = this.#loaded;
    for (const section of SECTIONS) for (const json of entries[section]) this.#put(section, json);
    for (const entry of this.#shadowed) this.#draft.put(entry);
    for (const commit of journal) {
      for (const change of commit) {
        if (change.op === 'put') this.#put(change.section, change.json);
        else this.#remove(change);
      }
    }
    return { snapshot: this.#draft.finish().snapshot, problems: this.#problems };
  }

  #put(section: Section, json: string): void {
    try {
      if (section === 'namespaces') this.#putNamespace(json);
      else if (section === 'forwards') this.#putForward(json);
      else if (section === 'services') this.#putService(json);
      else this.#putEntry(section, kindOf(section), json);
    } catch (error) {
      this.#keep(section, json, error instanceof Error ? error.message : String(error));
    }
  }

  #putNamespace(json: string): void {
    const namespace = readNamespace(json);
    if (typeof namespace === 'string') this.#keep('namespaces', json, namespace);
    else this.#draft.putNamespace(namespace.name, namespace.labels, namespace.unknown);
  }

  #putForward(json: string): void {
    const forward = readForward(json, () => this.#number());
    if (typeof forward === 'string') {
      this.#keep('forwards', json, forward);
      return;
    }
    this.#draft.reserveSource(forward.source);
    this.#draft.putForward(forward);
  }

  #putService(json: string): void {
    const service = readService(json, () => this.#number());
    if (typeof service === 'string') {
      this.#keep('services', json, service);
      return;
    }
    this.#draft.reserveSource(service.source);
    this.#draft.putService(service);
  }

  #putEntry(section: Section, kind: Kind, json: string): void {
    let orphaned = false;
    const sourceOf = (forward: string): number | undefined => {
      const source = this.#draft.forwards.get(forward)?.source;
      orphaned = source === undefined;
      return source;
    };
    const read = readEntry(kind, json, sourceOf, () => this.#number());
    if (typeof read !== 'string') {
      this.#draft.reserveSource(read.entry.source);
      if (read.shadowed) this.#shadowed.push(read.entry);
      else this.#draft.put(read.entry);
    } else if (orphaned) {
      this.#problems.push(`an entry of ${section} in registry.json is dropped: ${read}`);
    } else {
      this.#keep(section, json, read);
    }
  }

  #remove({ section, id }: Extract<Change, { op: 'remove' }>): void {
    if (section === 'namespaces') {
      const name = [...this.#draft.namespaces.keys()].find((candidate) => candidate === id);
      if (name && name !== DEFAULT_NAMESPACE) this.#draft.removeNamespace(name);
      return;
    }
    if (section === 'forwards') {
      this.#draft.removeForward(id);
      return;
    }
    if (section === 'services') {
      const service = this.#draft.serviceById(id);
      if (service) this.#draft.removeServices(service.name, [service]);
      return;
    }
    const entry = this.#draft.byId(kindOf(section), id);
    if (entry) this.#draft.remove(entry);
  }

  #keep(section: Section, json: string, problem: string): void {
    this.#draft.putForeign(section, json);
    this.#problems.push(`an entry of ${section} in registry.json cannot be used: ${problem}`);
  }

  /** A registration number for a record that has none, as in a file written by hand: behind all that were given. */
  #number(): number {
    if (!this.#numbered) {
      this.#numbered = true;
      for (const json of Object.values(this.#loaded.entries).flat()) {
        // Whatever is called so: a number too many is harmless, one that is given twice is not.
        for (const [, digits] of json.matchAll(/"source":\s*(\d{1,16})/g)) {
          if (Number(digits) < LARGEST_SOURCE) this.#draft.reserveSource(Number(digits));
        }
      }
    }
    return this.#draft.nextSource();
  }
}

function kindOf(section: Section): Kind {
  return KINDS.find((kind) => SECTION[kind] === section) ?? 'tool';
}
