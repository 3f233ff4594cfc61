import type { AnswerTarget } from '../answer/answer-target.ts';
import type { HeaderEdits } from '../pipeline/filters/headers.ts';

/** Has the head of the answer edited, in the order of the filters that want it, when it is written. */
export function editHead(target: AnswerTarget, edits: readonly HeaderEdits[]): void {
  const writeHead = target.writeHead.bind(target);
  target.writeHead = (status, headers) => writeHead(status, edits.reduce(edited, headers));
}

function edited(headers: string[], { remove, set, add }: HeaderEdits): string[] {
  const kept: string[] = [];
  for (let index = 0; index + 1 < headers.length; index += 2) {
    const [name = '', value = ''] = headers.slice(index, index + 2);
    if (!remove.has(name.toLowerCase())) kept.push(name, value);
  }
  return [...kept, ...set, ...add];
}
