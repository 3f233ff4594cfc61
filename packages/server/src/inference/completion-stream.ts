import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/json/lossless';
import { tryParseJson } from '@sluice/json/parse';
import { AssembledMessage } from './assembled-message.ts';
import { LONGEST_NAME } from './captured-text.ts';

/** What ends a stream of chunks, in the place of one. */
const DONE = '[DONE]';

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
 */
export class CompletionStream {
  /** The id of the first chunk that has one. */
  id: string | undefined = undefined;
  #ended = false;
  readonly #members = new Map<string, JsonValue>();
  readonly #choices = new Map<number, AssembledChoice>();

  /**
   * Adds the data of one event. False: it is JSON, but nothing that a completion could be made of. What is no JSON, and
   * what follows the end, counts for nothing.
   */
  add(data: string): boolean {
    if (this.#ended) return true;
    if (data.startsWith(DONE)) {
      this.#ended = true;
      return true;
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
      else setUnlessNull(this.#members, name, value);
    }
    const { id, choices } = chunk;
    if (this.id === undefined && typeof id === 'string' && isName(id)) this.id = id;
    if (!Array.isArray(choices)) return;
    for (const choice of choices) if (isJsonObject(choice)) this.#addToChoice(choice);
  }

  #addToChoice({ index, delta, finish_reason: finishReason, logprobs, ...others }: JsonObject): void {
    const at = typeof index === 'number' ? index : 0;
    let choice = this.#choices.get(at);
    if (!choice) {
      choice = { finishReason: null, logprobs: undefined, message: new AssembledMessage(), others: new Map() };
      this.#choices.set(at, choice);
    }
    if (finishReason !== undefined && finishReason !== null && finishReason !== '') choice.finishReason = finishReason;
    if (isJsonObject(logprobs)) {
      choice.logprobs ??= new Map();
      addLogprobs(choice.logprobs, logprobs);
    }
    for (const name in others) {
      const value = others[name];
      if (value !== undefined) setUnlessNull(choice.others, name, value);
    }
    if (isJsonObject(delta)) choice.message.add(delta);
  }
}

/** Whether it may stand for something: not empty, and not longer than {@link LONGEST_NAME}. */
function isName(text: string): boolean {
  return text !== '' && text.length <= LONGEST_NAME;
}

/** Lists of log probabilities are joined. */
function addLogprobs(all: Map<string, JsonValue>, piece: JsonObject): void {
  for (const [name, value] of Object.entries(piece)) {
    const earlier = all.get(name);
    if (Array.isArray(earlier) && Array.isArray(value)) for (const each of value) earlier.push(each);
    else setUnlessNull(all, name, value);
  }
}

/** Null says that there is no value yet, not that an earlier one is gone. */
function setUnlessNull(members: Map<string, JsonValue>, name: string, value: JsonValue): void {
  if (value !== null || !members.has(name)) members.set(name, value);
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
