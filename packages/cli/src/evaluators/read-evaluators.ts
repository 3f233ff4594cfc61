import { evaluatorsInput, findUnknownMembers } from '@sluice/contract';
import { isJsonObject, type JsonValue } from '@sluice/protocol/json/parse';
import type { z } from 'zod';
import { Failure } from '../failure.ts';
import { tryValidate } from '../files/document.ts';

/** Findings that are listed; a file that is wrong throughout would fill the screen. */
const MAX_FINDINGS = 20;

/**
 * The evaluators of a document: a list, or an object with `evaluators`. Their form is checked as the service would, so
 * that the key of a model that somebody wrote beside a prompt is not even sent; and what the service would ignore is not
 * let through, because `on_eror: block` is no `on_error: block`. Throws {@link Failure} that lists what is wrong.
 */
export function parseEvaluators(document: JsonValue, source: string): z.output<typeof evaluatorsInput> {
  const submitted = Array.isArray(document) ? { evaluators: document } : document;
  if (!isJsonObject(submitted) || !Array.isArray(submitted.evaluators)) {
    throw new Failure(`${source}: must be a list of evaluators, or an object with "evaluators"`);
  }
  const result = tryValidate(evaluatorsInput, submitted);
  const unknown = submitted.evaluators.flatMap(unknownMemberFindings);
  if ('value' in result && unknown.length === 0) return result.value;
  const findings = [...('findings' in result ? result.findings : []), ...unknown];
  const more = findings.length > MAX_FINDINGS ? ['and more'] : [];
  throw new Failure(`${source}: nothing was sent, because ${findings.length === 1 ? 'this is' : 'these are'} wrong`, {
    notes: [...findings.slice(0, MAX_FINDINGS), ...more],
  });
}

function unknownMemberFindings(evaluator: unknown, index: number): string[] {
  return findUnknownMembers(evaluator).map(
    ({ path, known }) => `evaluators.${index}.${path.join('.')}: is not known; known are ${known.join(', ')}`,
  );
}
