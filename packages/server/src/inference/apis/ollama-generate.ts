import type { JsonObject } from '@sluice/protocol/json/parse';
import type { BoundedValues } from '../bounded-values.ts';
import type { AnswerAssembler, CompletionApi } from './api.ts';
import { AssembledMembers } from './members.ts';
import { OLLAMA_FIELDS } from './ollama.ts';

/** Ollama's API that completes a text. */
export const ollamaGenerate: CompletionApi = {
  path: '/api/generate',
  request: { conversation: 'prompt', instructions: 'system' },
  fields: OLLAMA_FIELDS,
  recognizes: ({ done, response }) => typeof done === 'boolean' && typeof response === 'string',
  assembler: (values) => new TextAssembler(values),
};

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
