import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/protocol/json/parse';
import type { KeptValues } from './kept-values.ts';

/** Members of a delta, beside the content, whose pieces are parts of one text. */
const GROWING: ReadonlySet<string> = new Set(['refusal', 'reasoning', 'reasoning_content']);

/** Members of a message that are there in their own form or not at all. */
const SAID_APART: ReadonlySet<string> = new Set(['role', 'content', 'refusal', 'tool_calls', 'function_call']);

/** Calls beyond so many are left out. */
const MOST_CALLS = 128;
/** What a call costs, beside what is in it. */
const CALL_COST = 256;

/**
 * The message that one choice of a streamed completion becomes, delta by delta (decisions 4.8). It has 128 tool calls at
 * most; those, and all other members, are kept as far as there is room for them.
 */
export class AssembledMessage {
  readonly #kept: KeptValues;
  #role: JsonValue | undefined = undefined;
  #content: string | null = null;
  readonly #others = new Map<string, JsonValue>();
  #functionCall: AssembledFunction | undefined = undefined;
  #toolCalls: AssembledToolCalls | undefined = undefined;

  constructor(kept: KeptValues) {
    this.#kept = kept;
  }

  add(delta: JsonObject): void {
    for (const [name, value] of Object.entries(delta)) {
      if (name === 'content' && typeof value === 'string') this.#content = (this.#content ?? '') + value;
      else if (value !== null) this.#addMember(name, value);
      else if (!SAID_APART.has(name) && !this.#others.has(name)) this.#kept.set(this.#others, name, null);
    }
  }

  #addMember(name: string, value: JsonValue): void {
    if (name === 'role') {
      if (value !== '' && (typeof value === 'string' || this.#kept.takeValue(value))) this.#role = value;
    } else if (name === 'refusal' && value === '') {
      // None has come yet.
    } else if (name === 'tool_calls' && Array.isArray(value)) {
      this.#toolCalls ??= new AssembledToolCalls(this.#kept);
      this.#toolCalls.addAll(value);
    } else if (name === 'function_call' && isJsonObject(value)) {
      this.#functionCall ??= new AssembledFunction(this.#kept);
      this.#functionCall.add(value);
    } else {
      const earlier = this.#others.get(name);
      const grows = typeof value === 'string' && typeof earlier === 'string' && GROWING.has(name);
      this.#kept.set(this.#others, name, grows ? earlier + value : value);
    }
  }

  /** The message as an answer in one piece has it: content and refusal are null where none came, not even an empty one. */
  take(): JsonObject {
    return {
      role: this.#role ?? 'assistant',
      content: this.#content,
      refusal: null,
      ...Object.fromEntries(this.#others),
      ...(this.#functionCall && { function_call: this.#functionCall.take() }),
      ...(this.#toolCalls && { tool_calls: this.#toolCalls.take() }),
    };
  }
}

/** A function's name and arguments; those come in pieces. */
class AssembledFunction {
  readonly #kept: KeptValues;
  #name = '';
  #arguments = '';
  readonly #others = new Map<string, JsonValue>();

  constructor(kept: KeptValues) {
    this.#kept = kept;
  }

  add(piece: JsonObject): void {
    for (const [name, value] of Object.entries(piece)) {
      if (name === 'arguments' && typeof value === 'string') this.#arguments += value;
      else if (name === 'name' && typeof value === 'string') this.#name = value || this.#name;
      else if (value !== null) this.#kept.set(this.#others, name, value);
    }
  }

  take(): JsonObject {
    return { ...Object.fromEntries(this.#others), name: this.#name, arguments: this.#arguments };
  }
}

interface AssembledToolCall {
  readonly members: Map<string, JsonValue>;
  function: AssembledFunction | undefined;
}

/** Tool calls by their index. Of a sender that leaves the index out, each new id begins a call. */
class AssembledToolCalls {
  readonly #kept: KeptValues;
  readonly #calls = new Map<number, AssembledToolCall>();
  #latest = -1;

  constructor(kept: KeptValues) {
    this.#kept = kept;
  }

  addAll(pieces: readonly JsonValue[]): void {
    for (const piece of this.#kept.first(pieces, MOST_CALLS)) if (isJsonObject(piece)) this.#add(piece);
  }

  #add(piece: JsonObject): void {
    const index = this.#indexOf(piece);
    this.#latest = index;
    const call = this.#calls.get(index) ?? this.#begin(index);
    if (call === undefined) return;
    for (const [name, value] of Object.entries(piece)) {
      if (name === 'function' && isJsonObject(value)) {
        call.function ??= new AssembledFunction(this.#kept);
        call.function.add(value);
      } else if (name !== 'index' && value !== null && value !== '') {
        this.#kept.set(call.members, name, value);
      }
    }
  }

  #begin(index: number): AssembledToolCall | undefined {
    if (this.#calls.size >= MOST_CALLS) this.#kept.cut = true;
    if (this.#calls.size >= MOST_CALLS || !this.#kept.take(CALL_COST)) return undefined;
    const call: AssembledToolCall = { members: new Map(), function: undefined };
    this.#calls.set(index, call);
    return call;
  }

  #indexOf({ index, id }: JsonObject): number {
    if (typeof index === 'number') return index;
    const isNew = typeof id === 'string' && id !== '' && this.#calls.get(this.#latest)?.members.get('id') !== id;
    return isNew || this.#latest === -1 ? this.#latest + 1 : this.#latest;
  }

  take(): JsonObject[] {
    return [...this.#calls]
      .sort(([a], [b]) => a - b)
      .map(([, call]) => ({
        ...Object.fromEntries(call.members),
        ...(call.function && { function: call.function.take() }),
      }));
  }
}
