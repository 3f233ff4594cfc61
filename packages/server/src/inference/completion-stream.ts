import { isJsonObject, type JsonObject, type JsonValue, tryParseJson } from '@sluice/protocol/json/parse';
import { AssembledMessage } from './assembled-message.ts';
import { LONGEST_NAME } from './captured-text.ts';
import { KeptValues } from './kept-values.ts';

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
  readonly #kept: KeptValues;
  readonly #members = new Map<string, JsonValue>();
  readonly #choices = new Map<number, AssembledChoice>();

  /** `room`: the bytes that all values may cost together; see {@link KeptValues}. */
  constructor(room: number) {
    this.#kept = new KeptValues(room);
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
