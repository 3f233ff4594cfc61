import { isJsonObject } from '@sluice/protocol/json/parse';
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
  assembler: (values) => new ChoicesAssembler('text_completion', values, () => completedText(values)),
};

function completedText(values: BoundedValues): ChoiceContent {
  const whole = new RecordedText(values);
  return {
    add({ text, ...others }) {
      if (typeof text === 'string') whole.add(text);
      return others;
    },
    take: () => ({ text: whole.toString() }),
  };
}
