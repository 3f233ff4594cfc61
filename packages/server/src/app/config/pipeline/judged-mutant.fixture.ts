import { isDeepStrictEqual } from 'node:util';
import { parseDocument } from 'yaml';
import { formatPosition } from '../yaml-document.ts';
import { expectedMeaning } from './expected-meaning.fixture.ts';
import { withoutPlaces } from './meaning.fixture.ts';
import { checkPipeline } from './parse.ts';
import type { PipelineListener } from './pipeline.ts';

const NAME = 'p';

/** What became of a changed file. */
export type Judged =
  | { readonly kind: 'refused' }
  | { readonly kind: 'taken'; readonly meaning: object; readonly listeners: readonly PipelineListener[] }
  /** It should not have been so: why. */
  | { readonly kind: 'wrong'; readonly why: string };

/**
 * Has the parser look at a changed file, and looks at what it says: a refusal has to name places that are there, and a file
 * that is taken has to mean what its values do by the contract. `values` are these where they are known; else they are
 * read from the text.
 */
export function judged(text: string, folder: string, values?: unknown): Judged {
  try {
    const checked = checkPipeline(text, NAME, folder);
    if ('problems' in checked) return refused(checked.problems, text);
    const meaning = withoutPlaces(checked.pipeline);
    const stated: unknown = values ?? parseDocument(text, { logLevel: 'silent' }).toJS();
    if (isDeepStrictEqual(told(meaning), told(expectedMeaning(stated, folder)))) {
      return { kind: 'taken', meaning, listeners: checked.pipeline.listeners };
    }
    return { kind: 'wrong', why: `means something else: ${JSON.stringify(meaning)}` };
  } catch (error) {
    return { kind: 'wrong', why: `threw ${error instanceof Error ? error.stack : String(error)}` };
  }
}

function refused(
  problems: readonly { readonly at: Parameters<typeof formatPosition>[0]; readonly text: string }[],
  text: string,
): Judged {
  const lines = text.split('\n').length;
  const odd = problems.find(
    ({ at, text: words }) =>
      !/^p:[1-9]\d*:[1-9]\d*$/.test(formatPosition(at)) || at.line > lines || /[\n\r]/.test(words),
  );
  if (odd) return { kind: 'wrong', why: `is refused with ${formatPosition(odd.at)}: ${odd.text}` };
  return problems.length > 0 ? { kind: 'refused' } : { kind: 'wrong', why: 'is refused without a word' };
}

/** Without what is undefined, and in one order of keys. */
function told(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(told);
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  return Object.fromEntries(members.map(([key, member]) => [key, told(member)]).toSorted());
}
