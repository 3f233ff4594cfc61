/**
 * Why an LLM gave no answer (decisions 4.9, "Failure").
 *
 * - `network`: no connection came about, or it ended before the answer was complete
 * - `timeout`: the answer was not complete in time
 * - `status`: an HTTP status that is no success; redirects are not followed
 * - `too-large`: an answer over the limit
 * - `invalid`: an answer that is not HTTP, not UTF-8 or not JSON
 * - `no-content`: an answer without `choices[0].message.content`, or one that is no text
 * - `request`: a request that cannot be sent
 * - `aborted`: ended from our side
 */
export type LlmFault =
  | 'network'
  | 'timeout'
  | 'status'
  | 'too-large'
  | 'invalid'
  | 'no-content'
  | 'request'
  | 'aborted';

/**
 * An LLM that gave no answer. The message names the connection and nothing else of it: no model, no address, no key, and
 * nothing of what was asked or answered. So it has no cause either.
 */
export class LlmFailure extends Error {
  override readonly name = 'LlmFailure';
  readonly fault: LlmFault;

  /** `what` completes the sentence that begins with the connection's name. */
  constructor(fault: LlmFault, connection: string, what: string) {
    super(`llm connection ${JSON.stringify(connection)} ${what}`);
    this.fault = fault;
  }
}

/** A connection by which nothing can be sent. */
export function unusable(connection: string): LlmFailure {
  return new LlmFailure('request', connection, 'cannot be asked: its url or its api_key cannot be used');
}
