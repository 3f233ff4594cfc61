import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/protocol/json/parse';
import { FieldTree } from '../answer-fields.ts';
import type { BoundedValues } from '../bounded-values.ts';
import type { AnswerAssembler } from './api.ts';
import { AssembledList, AssembledMembers } from './members.ts';

/** Fields of answers with choices. */
export const CHOICE_FIELDS: FieldTree = new FieldTree({
  id: 'id',
  model: 'model',
  'usage.prompt_tokens': 'inputTokens',
  'usage.completion_tokens': 'outputTokens',
  'choices[].index': 'index',
  'choices[].finish_reason': 'finish',
  error: 'error',
  'error.type': 'errorType',
  'error.code': 'errorCode',
});

const MAX_CHOICES = 128;

/** What a choice contains besides its reason and log probabilities. */
export interface ChoiceContent {
  /** Adds the members of a choice of one chunk; returns those that it does not contain. */
  add(choice: JsonObject): JsonObject;
  take(): JsonObject;
}

interface Choice {
  readonly content: ChoiceContent;
  logprobs: AssembledMembers | undefined;
  readonly others: AssembledMembers;
}

/**
 * Assembles an answer with choices from its chunks, as the official client library does. Content and log probabilities are
 * concatenated; of other members the last value counts, but that of `id` and `model` which came first. An unfinished choice
 * has `finish_reason` null.
 */
export class ChoicesAssembler implements AnswerAssembler {
  readonly #object: string;
  readonly #values: BoundedValues;
  readonly #members: AssembledMembers;
  readonly #choices: AssembledList<Choice>;

  /** `object` is that of the answer; `createContent` creates the content of each choice. */
  constructor(object: string, values: BoundedValues, createContent: () => ChoiceContent) {
    this.#object = object;
    this.#values = values;
    this.#members = new AssembledMembers(values);
    this.#choices = new AssembledList(values, MAX_CHOICES, () => ({
      content: createContent(),
      logprobs: undefined,
      others: new AssembledMembers(values),
    }));
  }

  add(chunk: JsonObject): void {
    for (const name in chunk) {
      const value = chunk[name];
      if (value !== undefined && name !== 'choices') this.#setMember(name, value);
    }
    const { choices } = chunk;
    if (!Array.isArray(choices)) return;
    for (const choice of this.#values.first(choices, MAX_CHOICES)) if (isJsonObject(choice)) this.#addToChoice(choice);
  }

  /** An empty value erases nothing. */
  #setMember(name: string, value: JsonValue): void {
    const earlier = this.#members.get(name);
    if (earlier === value) return;
    if (earlier === undefined || earlier === null || earlier === '') this.#members.set(name, value);
    else if (value !== '' && value !== 0 && !FIRST.has(name)) this.#members.set(name, value);
  }

  #addToChoice(chunk: JsonObject): void {
    const choice = this.#choices.at(chunk.index);
    if (choice === undefined) return;
    const others = choice.content.add(chunk);
    for (const name in others) {
      const value = others[name];
      if (value === undefined || name === 'index') continue;
      if (name !== 'logprobs') {
        if (name !== 'finish_reason' || value !== '') choice.others.set(name, value);
      } else if (isJsonObject(value)) this.#addLogprobs(choice, value);
    }
  }

  #addLogprobs(choice: Choice, logprobs: JsonObject): void {
    choice.logprobs ??= new AssembledMembers(this.#values);
    for (const [name, value] of Object.entries(logprobs)) {
      if (Array.isArray(value)) choice.logprobs.extend(name, value);
      else choice.logprobs.set(name, value);
    }
  }

  take(): JsonObject {
    const { id, object: _, system_fingerprint, ...others } = this.#members.take();
    return {
      ...(typeof id === 'string' && id !== '' && { id }),
      object: this.#object,
      ...others,
      ...(system_fingerprint ? { system_fingerprint } : {}),
      choices: this.#choices.entries().map(([index, { content, logprobs, others: members }]) => ({
        index,
        ...content.take(),
        logprobs: logprobs?.take() ?? null,
        finish_reason: null,
        ...members.take(),
      })),
    };
  }
}

/** Members of which the first value counts. */
const FIRST: ReadonlySet<string> = new Set(['id', 'model']);
