import { isJsonObject, type JsonObject, type JsonValue, tryParseJson } from '@sluice/protocol/json/parse';
import { BoundedValues } from './bounded-memory.ts';
import { MAX_NAME_CHARACTERS } from './completion-fields.ts';
import type { StoredBody } from './interaction-store.ts';

/** Levels that the completion adds around a value of a chunk: the name of a called function is at depth seven. */
const OWN_DEPTH = 7;
/** Data of the event that ends the stream. */
const DONE = '[DONE]';

const MAX_CHOICES = 128;
/** Cost of a choice, in addition to its contents. */
const CHOICE_COST = 1024;
/** Longer events are parsed only if they have few values, such as one with an image. */
const LONG_EVENT_CHARACTERS = 256 * 1024;
const MAX_LONG_EVENT_VALUES = 8 * 1024;

interface Choice {
  finishReason: JsonValue;
  logprobs: Map<string, JsonValue> | undefined;
  readonly message: MessageAssembler;
  readonly otherMembers: Map<string, JsonValue>;
}

/**
 * Assembles the chat completion of a stream from its chunks (decisions 4.8), as the official client library does.
 * Content, arguments and log probabilities are concatenated; of other members the last value that is not null counts,
 * except that the id is that of the first chunk. An unfinished choice has `finish_reason` null. Never throws.
 *
 * A few bytes of a chunk can become many of the completion, and long work: choices beyond 128, tool calls of a message
 * beyond 128, values beyond the limit, and events of more than 256 KiB with many values are dropped.
 */
export class CompletionAssembler {
  /** Id of the first chunk that has one. */
  id: string | undefined = undefined;
  #hasEnded = false;
  readonly #values: BoundedValues;
  readonly #members = new Map<string, JsonValue>();
  readonly #choices = new Map<number, Choice>();

  /** `maxCost`: limit of the cost of all values; see {@link BoundedValues}. */
  constructor(maxCost: number) {
    this.#values = new BoundedValues(maxCost);
  }

  /** Upper bound of the depth of the completion. */
  get maxDepth(): number {
    return this.#values.maxDepth + OWN_DEPTH;
  }

  /** Whether parts of the chunks were dropped. */
  get isTruncated(): boolean {
    return this.#values.isTruncated;
  }

  /** Whether a chunk has arrived. */
  get hasStarted(): boolean {
    return this.#members.size > 0;
  }

  /** Member `model` of the chunks. */
  get model(): string | undefined {
    const model = this.#members.get('model');
    return typeof model === 'string' && isName(model) ? model : undefined;
  }

  /**
   * Adds the data of one event. Returns false if it shows that the stream is not a completion: it is JSON of another kind,
   * or the first event and too large to parse. Data that is not JSON, and data after the end, is ignored.
   */
  add(data: string): boolean {
    if (this.#hasEnded) return true;
    if (data.startsWith(DONE)) {
      this.#hasEnded = true;
      return true;
    }
    if (data.length > LONG_EVENT_CHARACTERS && hasManyValues(data)) {
      if (this.hasStarted) this.#values.isTruncated = true;
      return this.hasStarted;
    }
    const chunk = tryParseJson(data);
    if (!isJsonObject(chunk)) return chunk === undefined || this.hasStarted;
    if (!Array.isArray(chunk.choices) && chunk.error === undefined && this.#members.size === 0) return false;
    this.#addChunk(chunk);
    return true;
  }

  /** Returns the completion as far as it has arrived. */
  take(): JsonObject {
    const { id: _id, object: _object, choices: _, system_fingerprint, ...others } = Object.fromEntries(this.#members);
    return {
      ...(this.id !== undefined && { id: this.id }),
      object: 'chat.completion',
      ...others,
      ...(system_fingerprint ? { system_fingerprint } : {}),
      choices: [...this.#choices].sort(([a], [b]) => a - b).map(([index, choice]) => choiceJson(index, choice)),
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
    for (const choice of this.#values.first(choices, MAX_CHOICES)) if (isJsonObject(choice)) this.#addToChoice(choice);
  }

  #addToChoice({ index, delta, finish_reason: finishReason, logprobs, ...others }: JsonObject): void {
    const at = typeof index === 'number' ? index : 0;
    const choice = this.#choices.get(at) ?? this.#addChoice(at);
    if (choice === undefined) return;
    if (finishReason !== undefined && finishReason !== null && finishReason !== '') {
      if (typeof finishReason === 'string' || this.#values.reserveValue(finishReason))
        choice.finishReason = finishReason;
    }
    if (isJsonObject(logprobs)) {
      choice.logprobs ??= new Map();
      this.#addLogprobs(choice.logprobs, logprobs);
    }
    for (const name in others) {
      const value = others[name];
      if (value !== undefined) this.#setUnlessNull(choice.otherMembers, name, value);
    }
    if (isJsonObject(delta)) choice.message.add(delta);
  }

  #addChoice(index: number): Choice | undefined {
    if (this.#choices.size >= MAX_CHOICES) this.#values.isTruncated = true;
    if (this.#choices.size >= MAX_CHOICES || !this.#values.reserve(CHOICE_COST)) return undefined;
    const message = new MessageAssembler(this.#values);
    const choice: Choice = { finishReason: null, logprobs: undefined, message, otherMembers: new Map() };
    this.#choices.set(index, choice);
    return choice;
  }

  /** Concatenates lists of log probabilities. */
  #addLogprobs(all: Map<string, JsonValue>, added: JsonObject): void {
    for (const [name, value] of Object.entries(added)) {
      const earlier = all.get(name);
      if (!Array.isArray(earlier) || !Array.isArray(value)) this.#setUnlessNull(all, name, value);
      else if (this.#values.reserveValue(value)) for (const each of value) earlier.push(each);
    }
  }

  /** Null means that there is no value yet, not that an earlier value is removed. */
  #setUnlessNull(members: Map<string, JsonValue>, name: string, value: JsonValue): void {
    if (value !== null || !members.has(name)) this.#values.set(members, name, value);
  }
}

/** Whether the JSON may have more than {@link MAX_LONG_EVENT_VALUES} values: each follows a comma or a bracket. */
function hasManyValues(data: string): boolean {
  let remaining = MAX_LONG_EVENT_VALUES;
  for (const sign of [',', '[', '{']) {
    for (let at = data.indexOf(sign); at !== -1; at = data.indexOf(sign, at + 1)) if (--remaining < 0) return true;
  }
  return false;
}

function isName(text: string): boolean {
  return text !== '' && text.length <= MAX_NAME_CHARACTERS;
}

function choiceJson(index: number, { finishReason, logprobs, message, otherMembers }: Choice): JsonObject {
  return {
    index,
    message: message.take(),
    logprobs: logprobs === undefined ? null : Object.fromEntries(logprobs),
    finish_reason: finishReason,
    ...Object.fromEntries(otherMembers),
  };
}

/** Members of a delta, besides the content, that are concatenated. */
const CONCATENATED: ReadonlySet<string> = new Set(['refusal', 'reasoning', 'reasoning_content']);

/** Members of a message for which null is not stored. */
const NOT_NULL: ReadonlySet<string> = new Set(['role', 'content', 'refusal', 'tool_calls', 'function_call']);

const MAX_CALLS = 128;
/** Cost of a call, in addition to its contents. */
const CALL_COST = 256;

/** Assembles the message of one choice from its deltas (decisions 4.8), with at most 128 tool calls. */
class MessageAssembler {
  readonly #values: BoundedValues;
  #role: JsonValue | undefined = undefined;
  #content: string | null = null;
  readonly #otherMembers = new Map<string, JsonValue>();
  #functionCall: FunctionAssembler | undefined = undefined;
  #toolCalls: ToolCallsAssembler | undefined = undefined;

  constructor(values: BoundedValues) {
    this.#values = values;
  }

  add(delta: JsonObject): void {
    for (const [name, value] of Object.entries(delta)) {
      if (name === 'content' && typeof value === 'string') this.#content = (this.#content ?? '') + value;
      else if (value !== null) this.#addMember(name, value);
      else if (!NOT_NULL.has(name) && !this.#otherMembers.has(name)) this.#values.set(this.#otherMembers, name, null);
    }
  }

  #addMember(name: string, value: JsonValue): void {
    if (name === 'role') {
      if (value !== '' && (typeof value === 'string' || this.#values.reserveValue(value))) this.#role = value;
    } else if (name === 'refusal' && value === '') {
      // No refusal yet.
    } else if (name === 'tool_calls' && Array.isArray(value)) {
      this.#toolCalls ??= new ToolCallsAssembler(this.#values);
      this.#toolCalls.addAll(value);
    } else if (name === 'function_call' && isJsonObject(value)) {
      this.#functionCall ??= new FunctionAssembler(this.#values);
      this.#functionCall.add(value);
    } else {
      const earlier = this.#otherMembers.get(name);
      const isConcatenated = typeof value === 'string' && typeof earlier === 'string' && CONCATENATED.has(name);
      this.#values.set(this.#otherMembers, name, isConcatenated ? earlier + value : value);
    }
  }

  /** Returns the message as in a response without streaming: content and refusal are null if none has arrived. */
  take(): JsonObject {
    return {
      role: this.#role ?? 'assistant',
      content: this.#content,
      refusal: null,
      ...Object.fromEntries(this.#otherMembers),
      ...(this.#functionCall && { function_call: this.#functionCall.take() }),
      ...(this.#toolCalls && { tool_calls: this.#toolCalls.take() }),
    };
  }
}

/** Assembles the name and arguments of a function call; the arguments are concatenated. */
class FunctionAssembler {
  readonly #values: BoundedValues;
  #name = '';
  #arguments = '';
  readonly #otherMembers = new Map<string, JsonValue>();

  constructor(values: BoundedValues) {
    this.#values = values;
  }

  add(delta: JsonObject): void {
    for (const [name, value] of Object.entries(delta)) {
      if (name === 'arguments' && typeof value === 'string') this.#arguments += value;
      else if (name === 'name' && typeof value === 'string') this.#name = value || this.#name;
      else if (value !== null) this.#values.set(this.#otherMembers, name, value);
    }
  }

  take(): JsonObject {
    return { ...Object.fromEntries(this.#otherMembers), name: this.#name, arguments: this.#arguments };
  }
}

interface ToolCall {
  readonly members: Map<string, JsonValue>;
  function: FunctionAssembler | undefined;
}

/** Assembles tool calls by index. If the sender omits the index, each new id starts a call. */
class ToolCallsAssembler {
  readonly #values: BoundedValues;
  readonly #calls = new Map<number, ToolCall>();
  #lastIndex = -1;

  constructor(values: BoundedValues) {
    this.#values = values;
  }

  addAll(deltas: readonly JsonValue[]): void {
    for (const delta of this.#values.first(deltas, MAX_CALLS)) if (isJsonObject(delta)) this.#add(delta);
  }

  #add(delta: JsonObject): void {
    const index = this.#indexOf(delta);
    this.#lastIndex = index;
    const call = this.#calls.get(index) ?? this.#addCall(index);
    if (call === undefined) return;
    for (const [name, value] of Object.entries(delta)) {
      if (name === 'function' && isJsonObject(value)) {
        call.function ??= new FunctionAssembler(this.#values);
        call.function.add(value);
      } else if (name !== 'index' && value !== null && value !== '') {
        this.#values.set(call.members, name, value);
      }
    }
  }

  #addCall(index: number): ToolCall | undefined {
    if (this.#calls.size >= MAX_CALLS) this.#values.isTruncated = true;
    if (this.#calls.size >= MAX_CALLS || !this.#values.reserve(CALL_COST)) return undefined;
    const call: ToolCall = { members: new Map(), function: undefined };
    this.#calls.set(index, call);
    return call;
  }

  #indexOf({ index, id }: JsonObject): number {
    if (typeof index === 'number') return index;
    const isNew = typeof id === 'string' && id !== '' && this.#calls.get(this.#lastIndex)?.members.get('id') !== id;
    return isNew || this.#lastIndex === -1 ? this.#lastIndex + 1 : this.#lastIndex;
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

/** Token usage and finish reasons of a completion. */
interface CompletionUsage {
  readonly inputTokens: number | undefined;
  readonly outputTokens: number | undefined;
  /** Finish reasons of the choices that have one. */
  readonly finishReasons: readonly string[];
}

const NO_USAGE: CompletionUsage = { inputTokens: undefined, outputTokens: undefined, finishReasons: [] };
/** Larger bodies are not parsed, because that would block the event loop. */
const MAX_PARSED_BYTES = 256 * 1024;
const MAX_REASONS = 8;
const MAX_REASON_CHARACTERS = 64;

/** Reads the usage from a response body. */
export function parseUsage(body: StoredBody | undefined): CompletionUsage {
  if (!body?.isJson || body.bytes.length > MAX_PARSED_BYTES) return NO_USAGE;
  const completion = tryParseJson(body.bytes.toString());
  if (!isJsonObject(completion)) return NO_USAGE;
  const usage = isJsonObject(completion.usage) ? completion.usage : {};
  return {
    inputTokens: tokens(usage, 'prompt_tokens', 'input_tokens'),
    outputTokens: tokens(usage, 'completion_tokens', 'output_tokens'),
    finishReasons: Array.isArray(completion.choices)
      ? completion.choices.slice(0, MAX_REASONS).flatMap(finishReasonOf)
      : [],
  };
}

function tokens(usage: JsonObject, ...names: readonly string[]): number | undefined {
  for (const name of names) {
    const value = usage[name];
    if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value;
  }
  return undefined;
}

function finishReasonOf(choice: JsonValue): string[] {
  const reason = isJsonObject(choice) ? choice.finish_reason : undefined;
  return typeof reason === 'string' ? [reason.slice(0, MAX_REASON_CHARACTERS)] : [];
}
