import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { type BoundedValues, RecordedText } from '../bounded-values.ts';
import type { CompletionApi } from './api.ts';
import { CHOICE_FIELDS, type ChoiceContent, ChoicesAssembler } from './choices.ts';

/** OpenAI's earlier API, which completes a text. */
export const completions: CompletionApi = {
  path: '/completions',
  request: { conversation: 'prompt' },
  fields: CHOICE_FIELDS,
  recognizes: ({ object, choices }) =>
    object === 'text_completion' ||
    (Array.isArray(choices) && choices.some((choice) => isJsonObject(choice) && typeof choice.text === 'string')),
  assembler: (values) => new ChoicesAssembler('text_completion', values, () => new CompletedText(values)),
};

class CompletedText implements ChoiceContent {
  readonly #text: RecordedText;

  constructor(values: BoundedValues) {
    this.#text = new RecordedText(values);
  }

  add({ text, ...others }: JsonObject): JsonObject {
    if (typeof text === 'string') this.#text.add(text);
    return others;
  }

  take(): JsonObject {
    return { text: this.#text.toString() };
  }
}
