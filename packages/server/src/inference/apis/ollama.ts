import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { FieldTree } from '../answer-fields.ts';
import type { BoundedValues } from '../bounded-values.ts';
import type { AnswerAssembler, CompletionApi } from './api.ts';
import { AssembledMembers, objectIn } from './members.ts';

/** Fields of the answers of Ollama's own APIs. They have no id; an error is a text. */
const FIELDS = new FieldTree({
  model: 'model',
  prompt_eval_count: 'inputTokens',
  eval_count: 'outputTokens',
  done_reason: 'finish',
  error: 'error',
});

/** Ollama's API for chats. */
export const ollamaChat: CompletionApi = {
  path: '/api/chat',
  request: { conversation: 'messages' },
  fields: FIELDS,
  recognizes: ({ done, message }) => typeof done === 'boolean' && isJsonObject(message),
  assembler: (values) => new OllamaAssembler(values),
};

/** Ollama's API that completes a text. */
export const ollamaGenerate: CompletionApi = {
  path: '/api/generate',
  request: { conversation: 'prompt', instructions: 'system' },
  fields: FIELDS,
  recognizes: ({ done, response }) => typeof done === 'boolean' && typeof response === 'string',
  assembler: (values) => new OllamaAssembler(values),
};

const TEXTS = ['response', 'thinking'];
const IN_PIECES: ReadonlySet<string> = new Set([...TEXTS, 'message']);

/** Assembles the answer of a stream: the members of its last line, with the whole message or text. */
class OllamaAssembler implements AnswerAssembler {
  readonly #answer: AssembledMembers;
  readonly #message: AssembledMembers;

  constructor(values: BoundedValues) {
    this.#answer = new AssembledMembers(values);
    this.#message = new AssembledMembers(values);
  }

  add(line: JsonObject): void {
    this.#answer.setAll(line, IN_PIECES);
    for (const name of TEXTS) this.#answer.append(name, line[name]);
    for (const [name, value] of Object.entries(objectIn(line, 'message') ?? {})) {
      if (name !== 'role' && typeof value === 'string') this.#message.append(name, value);
      else if (name !== 'role' && Array.isArray(value)) this.#message.extend(name, value);
      else this.#message.set(name, value);
    }
  }

  take(): JsonObject {
    const message = this.#message.take();
    return { ...this.#answer.take(), ...(Object.keys(message).length > 0 && { message }) };
  }
}
