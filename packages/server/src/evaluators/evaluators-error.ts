import type { ValidationIssue } from '@sluice/contract';

/** Why a change of the evaluators was refused; the management API's codes of the same names (decisions 4.5 and 7). */
export type EvaluatorsErrorCode = 'BAD_REQUEST' | 'NOT_FOUND' | 'CONFLICT' | 'UNPROCESSABLE';

/** What the caller may want to know beyond the message: the members refused, or the revisions that differ. */
export type EvaluatorsErrorDetails = readonly ValidationIssue[] | Readonly<Record<string, number>>;

/** A refused change. It left everything as it was, and its message is fit to be answered. */
export class EvaluatorsError extends Error {
  override readonly name = 'EvaluatorsError';
  readonly code: EvaluatorsErrorCode;
  readonly details: EvaluatorsErrorDetails | undefined;

  constructor(code: EvaluatorsErrorCode, message: string, details?: EvaluatorsErrorDetails) {
    super(message);
    this.code = code;
    this.details = details;
  }
}
