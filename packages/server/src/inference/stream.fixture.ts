import { AnswerFields } from './answer-fields.ts';
import { MemoryBudget } from './bounded-memory.ts';
import { StreamedAnswer } from './streamed-answer.ts';

/** Returns what is assembled from the data of events, and the fields that are read. */
export function streamed(data: readonly (object | string)[], path = '/v1/chat/completions') {
  const limit = 4 * 1024 * 1024;
  const fields = new AnswerFields();
  const stream = new StreamedAnswer({ fields, path, limit, budget: new MemoryBudget(64 * limit) });
  for (const each of data) stream.onEvent({ data: typeof each === 'string' ? each : JSON.stringify(each) });
  const answer: unknown = JSON.parse(JSON.stringify(stream.take() ?? null));
  return { answer, fields, isTruncated: stream.values.isTruncated };
}
