import type { evaluatorsInput } from '@sluice/contract';
import { isJsonObject, type JsonValue } from '@sluice/protocol/json/parse';
import type { z } from 'zod';
import { Failure } from '../failure.ts';
import { tryValidate } from '../files/document.ts';

/** Maximum number of listed findings. */
const MAX_FINDINGS = 20;

/**
 * Parses evaluators: a list, or an object with `evaluators`. Validates like the service, so that an API key placed in a
 * prompt is not even sent; and rejects unknown members, because `on_eror: block` must not be ignored. Throws {@link
 * Failure} with all findings.
 */
export async function parseEvaluators(document: JsonValue, source: string): Promise<z.output<typeof evaluatorsInput>> {
  const submitted = Array.isArray(document) ? { evaluators: document } : document;
  if (!isJsonObject(submitted) || !Array.isArray(submitted.evaluators)) {
    throw new Failure(`${source}: expected a list of evaluators, or an object with "evaluators"`);
  }
  const { findUnknownMembers, unknownField } = await import('@sluice/contract');
  const result = await tryValidate(({ evaluatorsInput }) => evaluatorsInput, submitted);
  const unknown = submitted.evaluators.flatMap((evaluator: unknown, index) =>
    findUnknownMembers(evaluator).map(
      ({ path, known }) => `evaluators.${index}.${path.join('.')}: ${unknownField(known)}`,
    ),
  );
  if ('value' in result && unknown.length === 0) return result.value;
  const findings = [...('findings' in result ? result.findings : []), ...unknown];
  const more = findings.length > MAX_FINDINGS ? ['and more'] : [];
  throw new Failure(`${source}: invalid, nothing was sent`, {
    notes: [...findings.slice(0, MAX_FINDINGS), ...more],
  });
}
