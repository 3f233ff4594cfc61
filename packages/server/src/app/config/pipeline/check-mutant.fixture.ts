import { isDeepStrictEqual } from 'node:util';
import { parseDocument } from 'yaml';
import { formatPosition } from '../yaml-document.ts';
import { comparablePipeline } from './comparable.fixture.ts';
import { expectedMeaning } from './expected-pipeline.fixture.ts';
import { checkPipeline } from './parse.ts';
import type { PipelineListener } from './pipeline.ts';

const NAME = 'p';

/** Result of checking a mutant. */
export type MutantResult =
  | { readonly kind: 'rejected' }
  | { readonly kind: 'accepted'; readonly meaning: object; readonly listeners: readonly PipelineListener[] }
  /** The parser is wrong: why. */
  | { readonly kind: 'wrong'; readonly why: string };

/**
 * Parses a mutant and checks the result: problems must have valid positions, and an accepted file must be parsed as
 * specified by the contract. Without `values`, they are read from the text.
 */
export function checkMutant(text: string, folder: string, values?: unknown): MutantResult {
  try {
    const checked = checkPipeline(text, NAME, folder);
    if ('problems' in checked) return checkProblems(checked.problems, text);
    const parsed = comparablePipeline(checked.pipeline);
    const expectedValues: unknown = values ?? parseDocument(text, { logLevel: 'silent' }).toJS();
    if (isDeepStrictEqual(normalize(parsed), normalize(expectedMeaning(expectedValues, folder)))) {
      return { kind: 'accepted', meaning: parsed, listeners: checked.pipeline.listeners };
    }
    return { kind: 'wrong', why: `is parsed as something else: ${JSON.stringify(parsed)}` };
  } catch (error) {
    return { kind: 'wrong', why: `threw ${error instanceof Error ? error.stack : String(error)}` };
  }
}

function checkProblems(
  problems: readonly { readonly at: Parameters<typeof formatPosition>[0]; readonly text: string }[],
  text: string,
): MutantResult {
  const lines = text.split('\n').length;
  const invalid = problems.find(
    ({ at, text: message }) =>
      !/^p:[1-9]\d*:[1-9]\d*$/.test(formatPosition(at)) || at.line > lines || /[\n\r]/.test(message),
  );
  if (invalid) return { kind: 'wrong', why: `is rejected with ${formatPosition(invalid.at)}: ${invalid.text}` };
  return problems.length > 0 ? { kind: 'rejected' } : { kind: 'wrong', why: 'is rejected without a problem' };
}

/** Removes undefined members and sorts keys. */
function normalize(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(normalize);
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  return Object.fromEntries(members.map(([key, member]) => [key, normalize(member)]).toSorted());
}
