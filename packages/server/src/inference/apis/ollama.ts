import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import type { FieldPaths } from '../answer-fields.ts';
import type { BoundedValues } from '../bounded-values.ts';
import type { AnswerAssembler, CompletionApi } from './api.ts';
import { AssembledMembers, objectIn } from './members.ts';

/** Fields of the answers of Ollama's own APIs. They have no id; an error is a text. */
const FIELDS: FieldPaths = {
  model: 'model',
  prompt_eval_count: 'inputTokens',
  eval_count: 'outputTokens',
  done_reason: 'finish',
  error: 'error',
};

/** Ollama's API for chats. */
export const ollamaChat: CompletionApi = {
  path: '/api/chat',
  request: { conversation: 'messages' },
  fields: FIELDS,
  recognizes: ({ done, message }) => typeof done === 'boolean' && isJsonObject(message),
  assembler: (values) => new ChatAssembler(values),
};

/** Ollama's API that completes a text. */
export const ollamaGenerate: CompletionApi = {
  path: '/api/generate',
  request: { conversation: 'prompt', instructions: 'system' },
  fields: FIELDS,
  recognizes: ({ done, response }) => typeof done === 'boolean' && typeof response === 'string',
  assembler: (values) => new TextAssembler(values),
};

const MESSAGE: ReadonlySet<string> = new Set(['message']);

/** Assembles the answer of a stream: the members of its last line, with the whole message. */
class ChatAssembler implements AnswerAssembler {
  readonly #answer: AssembledMembers;
  readonly #message: AssembledMembers;

  constructor(values: BoundedValues) {
    this.#answer = new AssembledMembers(values);
    this.#message = new AssembledMembers(values);
  }

  add(line: JsonObject): void {
    this.#answer.setAll(line, MESSAGE);
    for (const [name, value] of Object.entries(objectIn(line, 'message') ?? {})) {
      if (name !== 'role' && typeof value === 'string') this.#message.append(name, value);
      else if (name !== 'role' && Array.isArray(value)) this.#message.extend(name, value);
      else this.#message.set(name, value);
    }
  }

  take(): JsonObject {
    return { ...this.#answer.take(), message: this.#message.take() };
  }
}

const TEXTS: ReadonlySet<string> = new Set(['response', 'thinking']);

/** Assembles the answer of a stream: the members of its last line, with the whole text. */
class TextAssembler implements AnswerAssembler {
  readonly #answer: AssembledMembers;

  constructor(values: BoundedValues) {
    this.#answer = new AssembledMembers(values);
  }

  add(line: JsonObject): void {
    this.#answer.setAll(line, TEXTS);
    for (const name of TEXTS) this.#answer.append(name, line[name]);
  }

  take(): JsonObject {
    return this.#answer.take();
  }
}
