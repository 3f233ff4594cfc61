import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/protocol/json/parse';
import type { BoundedValues } from '../bounded-values.ts';
import { AssembledList, AssembledMembers } from './members.ts';

const MAX_CALLS = 128;

interface ToolCall {
  readonly members: AssembledMembers;
  function: AssembledMembers | undefined;
  /** Position among the calls. */
  index: number;
}

/**
 * Assembles the tool calls of a message by their index. Some servers send all of them with the index 0, or with none: another
 * id together with a name starts a call.
 */
export class ToolCalls {
  readonly #values: BoundedValues;
  readonly #calls: AssembledList<ToolCall>;
  /** The latest call with each index. */
  readonly #byIndex = new Map<number, ToolCall>();
  /** The call of the last delta. */
  #last: ToolCall | undefined = undefined;

  constructor(values: BoundedValues) {
    this.#values = values;
    const create = () => ({ members: new AssembledMembers(values), function: undefined, index: 0 });
    this.#calls = new AssembledList(values, MAX_CALLS, create);
  }

  addAll(deltas: readonly JsonValue[]): void {
    for (const delta of this.#values.first(deltas, MAX_CALLS)) if (isJsonObject(delta)) this.#add(delta);
  }

  #add(delta: JsonObject): void {
    const call = this.#find(delta) ?? this.#addCall(delta.index);
    this.#last = call;
    if (call === undefined) return;
    for (const [name, value] of Object.entries(delta)) {
      if (name === 'function' && isJsonObject(value)) this.#addFunction(call, value);
      else if (name !== 'index' && value !== null && value !== '') call.members.set(name, value);
    }
  }

  /** The call that a delta continues. */
  #find(delta: JsonObject): ToolCall | undefined {
    const { index, id } = delta;
    const known = typeof index === 'number' ? this.#byIndex.get(index) : this.#last;
    if (typeof id !== 'string' || id === '' || known === undefined) return known;
    const knownId = known.members.get('id');
    if (knownId === id) return known;
    const same = this.#calls.items().find(({ members }) => members.get('id') === id);
    if (same !== undefined) return same;
    const isNew = typeof index !== 'number' || (knownId !== undefined && hasName(delta));
    return isNew && (knownId !== undefined || known.function?.has('name')) ? undefined : known;
  }

  #addCall(index: JsonValue | undefined): ToolCall | undefined {
    const before = this.#calls.items().at(-1);
    const call = this.#calls.at(this.#calls.size);
    if (call === undefined) return undefined;
    call.index = typeof index === 'number' ? index : (before?.index ?? -1) + 1;
    this.#byIndex.set(call.index, call);
    return call;
  }

  #addFunction(call: ToolCall, delta: JsonObject): void {
    call.function ??= new AssembledMembers(this.#values);
    for (const [name, value] of Object.entries(delta)) {
      if (name === 'arguments') call.function.append(name, this.#argumentsText(value));
      else if (name !== 'name' || (typeof value === 'string' && value !== '')) call.function.set(name, value);
    }
  }

  /** Some servers send arguments as an object, which may be nested too deeply. */
  #argumentsText(value: JsonValue): string {
    if (typeof value === 'string') return value;
    return value !== null && this.#values.reserveValue(value) ? JSON.stringify(value) : '';
  }

  /** The calls in the order of their indexes. */
  take(): JsonObject[] {
    return this.#calls
      .items()
      .sort((a, b) => a.index - b.index)
      .map(({ members, function: called }) => ({
        ...members.take(),
        ...(called && { function: { name: '', arguments: '', ...called.take() } }),
      }));
  }
}

function hasName({ function: called }: JsonObject): boolean {
  return isJsonObject(called) && typeof called.name === 'string' && called.name !== '';
}
