import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/protocol/json/parse';
import type { BoundedValues } from '../bounded-values.ts';
import { AssembledMembers } from './members.ts';

const MAX_CALLS = 128;
/** Cost of a call, in addition to its contents. */
const CALL_COST = 1024;

interface ToolCall {
  readonly members: AssembledMembers;
  function: AssembledMembers | undefined;
  name: string;
}

/**
 * Assembles the tool calls of a message by their index. Some servers send all of them with the index 0, or with none: another
 * id together with a name starts a call.
 */
export class ToolCalls {
  readonly #values: BoundedValues;
  readonly #calls: ToolCall[] = [];
  /** The latest call with each index. */
  readonly #byIndex = new Map<number, ToolCall>();
  readonly #indexes = new Map<ToolCall, number>();
  #last: ToolCall | undefined = undefined;

  constructor(values: BoundedValues) {
    this.#values = values;
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
    const same = this.#calls.find(({ members }) => members.get('id') === id);
    if (same !== undefined) return same;
    const isNew = typeof index !== 'number' || (knownId !== undefined && hasName(delta));
    return isNew && (knownId !== undefined || known.name !== '') ? undefined : known;
  }

  #addCall(index: JsonValue | undefined): ToolCall | undefined {
    if (this.#calls.length >= MAX_CALLS) this.#values.isTruncated = true;
    if (this.#calls.length >= MAX_CALLS || !this.#values.reserve(CALL_COST)) return undefined;
    const call: ToolCall = { members: new AssembledMembers(this.#values), function: undefined, name: '' };
    this.#calls.push(call);
    const at = typeof index === 'number' ? index : (this.#indexes.get(this.#calls.at(-2) ?? call) ?? -1) + 1;
    this.#byIndex.set(at, call);
    this.#indexes.set(call, at);
    return call;
  }

  #addFunction(call: ToolCall, delta: JsonObject): void {
    call.function ??= new AssembledMembers(this.#values);
    for (const [name, value] of Object.entries(delta)) {
      if (name === 'arguments') call.function.append(name, this.#argumentsText(value));
      else if (name !== 'name') call.function.set(name, value);
      else if (typeof value === 'string' && value !== '') call.name = value;
    }
  }

  /** Some servers send arguments as an object, which may be nested too deeply. */
  #argumentsText(value: JsonValue): string {
    if (typeof value === 'string') return value;
    return value !== null && this.#values.reserveValue(value) ? JSON.stringify(value) : '';
  }

  /** The calls in the order of their indexes. */
  take(): JsonObject[] {
    const at = (call: ToolCall) => this.#indexes.get(call) ?? 0;
    return this.#calls
      .toSorted((a, b) => at(a) - at(b))
      .map((call) => ({ ...call.members.take(), ...(call.function && { function: functionJson(call) }) }));
  }
}

function functionJson({ name, function: assembled }: ToolCall): JsonObject {
  const { arguments: text = '', ...others } = assembled?.take() ?? {};
  return { ...others, name, arguments: text };
}

function hasName({ function: called }: JsonObject): boolean {
  return isJsonObject(called) && typeof called.name === 'string' && called.name !== '';
}
