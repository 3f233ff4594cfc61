import { isJsonObject, type JsonObject, type JsonValue, tryParseJson } from '@sluice/protocol/json/parse';
import type { StoredBody } from './body-capture.ts';
import { LONGEST_NAME } from './json-scanner.ts';

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
  readonly #kept: BoundedValues;
  #role: JsonValue | undefined = undefined;
  #content: string | null = null;
  readonly #others = new Map<string, JsonValue>();
  #functionCall: AssembledFunction | undefined = undefined;
  #toolCalls: AssembledToolCalls | undefined = undefined;

  constructor(kept: BoundedValues) {
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
  readonly #kept: BoundedValues;
  #name = '';
  #arguments = '';
  readonly #others = new Map<string, JsonValue>();

  constructor(kept: BoundedValues) {
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
  readonly #kept: BoundedValues;
  readonly #calls = new Map<number, AssembledToolCall>();
  #latest = -1;

  constructor(kept: BoundedValues) {
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

/** What a member costs whose name is the first of it in a list of members, beside that name. */
const NEW_NAME = 256;
/** What an array or an object costs, beside what is in it: in memory the empty ones take some ten times their JSON. */
const CONTAINER = 24;
/** Numbers that are no small integers may take so many bytes as JSON, however they came: `1e20` has 21. */
const LONG_NUMBER = 24;
const OTHER = 8;
/** More members than that no list of members has. */
const MOST_NAMES = 64;
/** Objects with more members are no records but lists of names: each of those costs this more. */
const FEW_NAMES = 32;
const LISTED_NAME = 32;
/** No value that is nested deeper is kept: writing it as JSON would exhaust the stack. */
const DEEPEST = 512;

/**
 * Bounds the values that are kept of the chunks of one stream (decisions 4.8): a few bytes of JSON can take many in
 * memory, and long to write. Every value is counted when it is kept, but a text or a number in the place of an earlier
 * one; texts count little, since they never grow. What there is no room for is left out, and {@link cut} says so.
 */
export class BoundedValues {
  /** Whether something was left out. */
  cut = false;
  /** How deeply the values are nested, at most. */
  deepest = 0;
  #room: number;
  /** How deeply the value being counted is nested. */
  #reached = 0;

  constructor(bytes: number) {
    this.#room = bytes;
  }

  /** The list, or the first of it where there are more than `most`. */
  first(list: readonly JsonValue[], most: number): readonly JsonValue[] {
    if (list.length <= most) return list;
    this.cut = true;
    return list.slice(0, most);
  }

  /** Whether there is room for so many bytes; they are taken. */
  take(bytes: number): boolean {
    if (bytes > this.#room) {
      this.cut = true;
      return false;
    }
    this.#room -= bytes;
    return true;
  }

  /** Whether there is room for the value, and so many bytes more; it is taken. */
  takeValue(value: JsonValue, more = 0): boolean {
    this.#reached = 0;
    const taken = this.take(more + this.#costOf(value, 0));
    if (taken && this.#reached > this.deepest) this.deepest = this.#reached;
    return taken;
  }

  /** Gives a list of members this one, where there is room for it. */
  set(members: Map<string, JsonValue>, name: string, value: JsonValue): void {
    if (typeof value !== 'object' && members.has(name)) {
      members.set(name, value);
      return;
    }
    const isNew = !members.has(name);
    if (isNew && members.size >= MOST_NAMES) this.cut = true;
    else if (this.takeValue(value, isNew ? NEW_NAME + name.length : 0)) members.set(name, value);
  }

  #costOf(value: JsonValue, depth: number): number {
    if (typeof value === 'number') return (value | 0) === value ? OTHER : LONG_NUMBER;
    if (typeof value !== 'object' || value === null) return OTHER;
    if (depth >= DEEPEST) return Number.POSITIVE_INFINITY;
    if (depth >= this.#reached) this.#reached = depth + 1;
    let cost = CONTAINER;
    if (Array.isArray(value)) {
      for (const each of value) cost += this.#costOf(each, depth + 1);
      return cost;
    }
    let names = 0;
    for (const [name, each] of Object.entries(value)) {
      names++;
      cost += name.length + this.#costOf(each, depth + 1);
    }
    return names > FEW_NAMES ? cost + names * LISTED_NAME : cost;
  }
}

/** Levels of a completion around the values of its chunks: that of a call's function is in seven. */
const OWN_LEVELS = 7;
/** What ends a stream of chunks, in the place of one. */
const DONE = '[DONE]';

/** Choices beyond so many are left out. */
const MOST_CHOICES = 128;
/** What a choice costs, beside what is in it. */
const CHOICE_COST = 1024;
/** Longer events are read only where they hold few values, as one with an image does. */
const LONG_EVENT = 256 * 1024;
const MOST_VALUES = 8 * 1024;

interface AssembledChoice {
  finishReason: JsonValue;
  logprobs: Map<string, JsonValue> | undefined;
  readonly message: AssembledMessage;
  readonly others: Map<string, JsonValue>;
}

/**
 * Makes one chat completion of the chunks that a stream brings (decisions 4.8): what the official client library makes
 * of them. Content, arguments and log probabilities are joined; of any other member the latest value counts that is not
 * null, except that the id is the first chunk's. A choice that was not finished has `finish_reason` null. Never throws.
 *
 * A few bytes of a chunk can become many of the completion, and long work: what goes beyond 128 choices, 128 tool calls
 * of a message, or the room for values is left out, and so is an event of more than 256 KiB that holds many values.
 */
export class CompletionStream {
  /** The id of the first chunk that has one. */
  id: string | undefined = undefined;
  #ended = false;
  readonly #kept: BoundedValues;
  readonly #members = new Map<string, JsonValue>();
  readonly #choices = new Map<number, AssembledChoice>();

  /** `room`: the bytes that all values may cost together; see {@link BoundedValues}. */
  constructor(room: number) {
    this.#kept = new BoundedValues(room);
  }

  /** How deeply the completion is nested, at most. */
  get deepest(): number {
    return this.#kept.deepest + OWN_LEVELS;
  }

  /** Whether something of the chunks was left out. */
  get cut(): boolean {
    return this.#kept.cut;
  }

  /**
   * Adds the data of one event. False: it is JSON, but nothing that a completion could be made of, or it begins the stream
   * and is too much to be read. What is no JSON, and what follows the end, counts for nothing.
   */
  add(data: string): boolean {
    if (this.#ended) return true;
    if (data.startsWith(DONE)) {
      this.#ended = true;
      return true;
    }
    if (data.length > LONG_EVENT && holdsMany(data)) {
      if (this.begun) this.#kept.cut = true;
      return this.begun;
    }
    const chunk = tryParseJson(data);
    if (!isJsonObject(chunk)) return chunk === undefined || this.begun;
    if (!Array.isArray(chunk.choices) && chunk.error === undefined && this.#members.size === 0) return false;
    this.#addChunk(chunk);
    return true;
  }

  /** Whether a chunk has come. */
  get begun(): boolean {
    return this.#members.size > 0;
  }

  /** The `model` of the chunks. */
  get model(): string | undefined {
    const model = this.#members.get('model');
    return typeof model === 'string' && isName(model) ? model : undefined;
  }

  /** The completion so far. */
  take(): JsonObject {
    const { id: _id, object: _object, choices: _, system_fingerprint, ...others } = Object.fromEntries(this.#members);
    return {
      ...(this.id !== undefined && { id: this.id }),
      object: 'chat.completion',
      ...others,
      ...(system_fingerprint ? { system_fingerprint } : {}),
      choices: [...this.#choices].sort(([a], [b]) => a - b).map(([index, choice]) => taken(index, choice)),
    };
  }

  #addChunk(chunk: JsonObject): void {
    for (const [name, value] of Object.entries(chunk)) {
      if (name === 'choices') this.#members.set(name, null);
      else this.#setUnlessNull(this.#members, name, value);
    }
    const { id, choices } = chunk;
    if (this.id === undefined && typeof id === 'string' && isName(id)) this.id = id;
    if (!Array.isArray(choices)) return;
    for (const choice of this.#kept.first(choices, MOST_CHOICES)) if (isJsonObject(choice)) this.#addToChoice(choice);
  }

  #addToChoice({ index, delta, finish_reason: finishReason, logprobs, ...others }: JsonObject): void {
    const at = typeof index === 'number' ? index : 0;
    const choice = this.#choices.get(at) ?? this.#begin(at);
    if (choice === undefined) return;
    if (finishReason !== undefined && finishReason !== null && finishReason !== '') {
      if (typeof finishReason === 'string' || this.#kept.takeValue(finishReason)) choice.finishReason = finishReason;
    }
    if (isJsonObject(logprobs)) {
      choice.logprobs ??= new Map();
      this.#addLogprobs(choice.logprobs, logprobs);
    }
    for (const name in others) {
      const value = others[name];
      if (value !== undefined) this.#setUnlessNull(choice.others, name, value);
    }
    if (isJsonObject(delta)) choice.message.add(delta);
  }

  #begin(index: number): AssembledChoice | undefined {
    if (this.#choices.size >= MOST_CHOICES) this.#kept.cut = true;
    if (this.#choices.size >= MOST_CHOICES || !this.#kept.take(CHOICE_COST)) return undefined;
    const message = new AssembledMessage(this.#kept);
    const choice: AssembledChoice = { finishReason: null, logprobs: undefined, message, others: new Map() };
    this.#choices.set(index, choice);
    return choice;
  }

  /** Lists of log probabilities are joined. */
  #addLogprobs(all: Map<string, JsonValue>, piece: JsonObject): void {
    for (const [name, value] of Object.entries(piece)) {
      const earlier = all.get(name);
      if (!Array.isArray(earlier) || !Array.isArray(value)) this.#setUnlessNull(all, name, value);
      else if (this.#kept.takeValue(value)) for (const each of value) earlier.push(each);
    }
  }

  /** Null says that there is no value yet, not that an earlier one is gone. */
  #setUnlessNull(members: Map<string, JsonValue>, name: string, value: JsonValue): void {
    if (value !== null || !members.has(name)) this.#kept.set(members, name, value);
  }
}

/** Whether there may be more than {@link MOST_VALUES} values in the JSON: each begins one, or follows a comma. */
function holdsMany(data: string): boolean {
  let left = MOST_VALUES;
  for (const sign of [',', '[', '{']) {
    for (let at = data.indexOf(sign); at !== -1; at = data.indexOf(sign, at + 1)) if (--left < 0) return true;
  }
  return false;
}

/** Whether it may stand for something: not empty, and not longer than {@link LONGEST_NAME}. */
function isName(text: string): boolean {
  return text !== '' && text.length <= LONGEST_NAME;
}

function taken(index: number, { finishReason, logprobs, message, others }: AssembledChoice): JsonObject {
  return {
    index,
    message: message.take(),
    logprobs: logprobs === undefined ? null : Object.fromEntries(logprobs),
    finish_reason: finishReason,
    ...Object.fromEntries(others),
  };
}

/** What a completion says of itself, beside its text. */
export interface CompletionUsage {
  readonly inputTokens: number | undefined;
  readonly outputTokens: number | undefined;
  /** Why each choice ended; empty where nothing is said of it. */
  readonly finishReasons: readonly string[];
}

const NOTHING: CompletionUsage = { inputTokens: undefined, outputTokens: undefined, finishReasons: [] };
/** Larger ones are not parsed for this: that would hold everybody up. */
const MOST_BYTES = 256 * 1024;
const MOST_REASONS = 8;
const LONGEST_REASON = 64;

/** Reads it in the body of an answer. */
export function completionUsage(body: StoredBody | undefined): CompletionUsage {
  if (!body?.isJson || body.bytes.length > MOST_BYTES) return NOTHING;
  const completion = tryParseJson(body.bytes.toString());
  if (!isJsonObject(completion)) return NOTHING;
  const usage = isJsonObject(completion.usage) ? completion.usage : {};
  return {
    inputTokens: tokens(usage, 'prompt_tokens', 'input_tokens'),
    outputTokens: tokens(usage, 'completion_tokens', 'output_tokens'),
    finishReasons: Array.isArray(completion.choices) ? completion.choices.slice(0, MOST_REASONS).flatMap(reason) : [],
  };
}

function tokens(usage: JsonObject, ...names: readonly string[]): number | undefined {
  for (const name of names) {
    const value = usage[name];
    if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value;
  }
  return undefined;
}

function reason(choice: JsonValue): string[] {
  const said = isJsonObject(choice) ? choice.finish_reason : undefined;
  return typeof said === 'string' ? [said.slice(0, LONGEST_REASON)] : [];
}
