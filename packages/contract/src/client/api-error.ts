import type { ErrorObject } from '../envelope.ts';

/** An answer that was not what was asked for. The message is the API's own, or that of whoever answered in its place. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  /** HTTP status. */
  readonly status: number;
  /** The code of the envelope's error; undefined when the answer was not the API's, but a proxy's before it. */
  readonly code: ErrorObject['code'] | undefined;
  /** Details of the envelope's error. */
  readonly details: ErrorObject['details'];
  /** Where a redirect leads. */
  readonly location: string | undefined;

  constructor(response: Response, error: ErrorObject | undefined, text = '') {
    super(error?.message ?? (text.trim() || `HTTP status ${response.status}`));
    this.status = response.status;
    this.code = error?.code;
    this.details = error?.details;
    this.location = response.headers.get('location') ?? undefined;
  }
}
