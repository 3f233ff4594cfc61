import { type Expose, type ExposePatch, mergeExpose } from '../../packages/contract/src/index.ts';

/** The kinds of objects, by their members of `expose`. */
export const KINDS = ['tools', 'resources', 'prompts'] as const;
export type Kind = (typeof KINDS)[number];

/** An object of an upstream, by its forward and its own name or uri. */
export interface HiddenObject {
  readonly forward: string;
  readonly kind: Kind;
  readonly key: string;
}

/** Identifies an object, also in the texts that the upstreams return. */
export function idOf({ forward, kind, key }: HiddenObject): string {
  return `${forward} ${kind} ${key}`;
}

/** What operators have configured, as far as it hides objects. Immutable. */
export interface State {
  readonly forwards: Readonly<Record<string, ForwardState>>;
  /** Ids of disabled objects, and of those that were enabled. */
  readonly disabled: readonly string[];
  readonly approved: readonly string[];
  /** Namespaces of tools that were moved, by id. */
  readonly moved: Readonly<Record<string, string>>;
}

export interface ForwardState {
  readonly namespace: string;
  readonly expose: Expose | undefined;
  /** Ids of objects that its upstream did not offer at the first discovery, while new ones have been disabled since. */
  readonly late: readonly string[];
}

export const EMPTY: State = { forwards: {}, disabled: [], approved: [], moved: {} };

/** Whether no client may see an object. */
export function isHidden({ forwards, disabled, approved }: State, object: HiddenObject): boolean {
  const id = idOf(object);
  const forward = forwards[object.forward];
  if (!forward || disabled.includes(id)) return true;
  const { allow, deny = [] } = forward.expose?.[object.kind] ?? {};
  if (allow && !allow.some((glob) => matches(glob, object.key))) return true;
  if (deny.some((glob) => matches(glob, object.key))) return true;
  return forward.late.includes(id) && !approved.includes(id);
}

function matches(glob: string, text: string): boolean {
  const pattern = [...glob].map((character) => ({ '*': '.*', '?': '.' })[character] ?? RegExp.escape(character));
  return new RegExp(`^${pattern.join('')}$`, 's').test(text);
}

/** Disables or enables an object. */
export function marked(state: State, id: string, enabled: boolean): State {
  const without = (ids: readonly string[]) => ids.filter((other) => other !== id);
  return {
    ...state,
    disabled: [...without(state.disabled), ...(enabled ? [] : [id])].sort(),
    approved: [...without(state.approved), ...(enabled ? [id] : [])].sort(),
  };
}

/** Moves a tool; undefined: back to the namespace of its forward. */
export function movedTo(state: State, id: string, namespace: string | undefined): State {
  const { [id]: _before, ...others } = state.moved;
  return { ...state, moved: namespace === undefined ? others : { ...others, [id]: namespace } };
}

/** Changes a forward; one that does not exist stays so. */
export function changed(state: State, name: string, change: Partial<ForwardState>): State {
  const forward = state.forwards[name];
  return forward ? { ...state, forwards: { ...state.forwards, [name]: { ...forward, ...change } } } : state;
}

/** Changes the rules of a forward. Where new objects are enabled, none counts as late any more. */
export function exposing(state: State, name: string, patch: ExposePatch | null): State {
  const forward = state.forwards[name];
  if (!forward) return state;
  const expose = mergeExpose(forward.expose, patch);
  const late = forward.late.filter((id) =>
    KINDS.some((kind) => id.split(' ')[1] === kind && expose?.[kind]?.new === 'disabled'),
  );
  return changed(state, name, { expose, late });
}

/** Registers a forward. */
export function registered(state: State, name: string, forward: ForwardState): State {
  return { ...state, forwards: { ...state.forwards, [name]: forward } };
}

/** Deletes a forward with everything that was configured for its objects. */
export function deleted(state: State, name: string): State {
  const { [name]: _deleted, ...forwards } = state.forwards;
  const isOther = (id: string) => !id.startsWith(`${name} `);
  return {
    forwards,
    disabled: state.disabled.filter(isOther),
    approved: state.approved.filter(isOther),
    moved: Object.fromEntries(Object.entries(state.moved).filter(([id]) => isOther(id))),
  };
}

/** Deletes a namespace with its forwards; tools of others that were moved there return disabled. */
export function withoutNamespace(state: State, namespace: string): State {
  const doomed = Object.entries(state.forwards).filter(([, forward]) => forward.namespace === namespace);
  const remaining = doomed.reduce((result, [name]) => deleted(result, name), state);
  return Object.entries(remaining.moved)
    .filter(([, at]) => at === namespace)
    .reduce((result, [id]) => movedTo(marked(result, id, false), id, undefined), remaining);
}

/** How an operation ended: unknown if the connection broke. */
export type Outcome = 'done' | 'rejected' | 'unknown';

/** An operation; `stages` are its effects in the order in which the service applies them. */
export interface Operation {
  readonly text: string;
  readonly stages: readonly ((state: State) => State)[];
  run(): Promise<Outcome>;
}

/**
 * The states that the service may be in, several after operations with unknown outcome, and the objects that are hidden in all
 * of them. Clients compare with it what they see.
 */
export class HiddenModel {
  readonly #objects: readonly HiddenObject[];
  #possible: readonly State[] = [EMPTY];
  /** When each hidden object was hidden, in changes so far. */
  readonly #hiddenSince = new Map<string, number>();
  /** Number of changes of what is hidden. */
  clock = 0;

  constructor(objects: readonly HiddenObject[]) {
    this.#objects = objects;
    this.#update(this.#possible);
  }

  /** Hidden objects of the registered forwards, with a namespace of each. */
  get hidden(): readonly (HiddenObject & { readonly namespace: string })[] {
    const [{ forwards, moved } = EMPTY] = this.#possible;
    return this.#objects.flatMap((object) => {
      const id = idOf(object);
      const namespace = moved[id] ?? forwards[object.forward]?.namespace;
      return namespace !== undefined && this.#hiddenSince.has(id) ? [{ ...object, namespace }] : [];
    });
  }

  /** Whether an object has been hidden since a value of the clock. */
  wasHiddenSince(id: string, start: number): boolean {
    const since = this.#hiddenSince.get(id);
    return since !== undefined && since <= start;
  }

  /** Runs an operation. Meanwhile only what is hidden before, after and in between counts as hidden. */
  async perform({ stages, run }: Operation): Promise<Outcome> {
    const between = (): State[] => {
      const states = [...this.#possible];
      let stage = this.#possible;
      for (const apply of stages) {
        stage = stage.map(apply);
        states.push(...stage);
      }
      return states;
    };
    this.#update(between());
    const outcome = await run();
    if (outcome === 'done')
      this.#possible = this.#possible.map((state) => stages.reduce((next, stage) => stage(next), state));
    else if (outcome === 'unknown') this.#possible = between();
    this.#possible = distinct(this.#possible);
    this.#update(this.#possible);
    return outcome;
  }

  /** Removes the states that contradict the forwards that the service has. False if all do. */
  observe(forwards: Readonly<Record<string, Pick<ForwardState, 'namespace' | 'expose'>>>): boolean {
    const configuration = (state: Readonly<Record<string, Pick<ForwardState, 'namespace' | 'expose'>>>) =>
      JSON.stringify(
        Object.entries(state)
          .map(([name, { namespace, expose }]) => [name, namespace, expose])
          .sort(),
      );
    const seen = configuration(forwards);
    const possible = this.#possible.filter((state) => configuration(state.forwards) === seen);
    if (possible.length === 0) return false;
    this.#possible = possible;
    this.#update(possible);
    return true;
  }

  #update(states: readonly State[]): void {
    this.clock++;
    for (const object of this.#objects) {
      const id = idOf(object);
      if (!states.every((state) => isHidden(state, object))) this.#hiddenSince.delete(id);
      else if (!this.#hiddenSince.has(id)) this.#hiddenSince.set(id, this.clock);
    }
  }
}

function distinct(states: readonly State[]): State[] {
  return [...new Map(states.map((state) => [JSON.stringify(state), state])).values()];
}
