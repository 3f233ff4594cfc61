import type { FieldPaths } from '../answer-fields.ts';

/** Fields of the answers of Ollama's own APIs. They have no id; an error is a text. */
export const OLLAMA_FIELDS: FieldPaths = {
  model: 'model',
  prompt_eval_count: 'inputTokens',
  eval_count: 'outputTokens',
  done_reason: 'finish',
  error: 'error',
};
