import type { JsonObject } from '@sluice/json/lossless';
import type { Era } from './protocol.ts';

/** JSON text of a result that is made here: the modern era asks for its type (2026-07-28, "Result Responses"). */
export function resultText(era: Era, result: JsonObject): string {
  return JSON.stringify(era === 'modern' ? { ...result, resultType: 'complete' } : result);
}
