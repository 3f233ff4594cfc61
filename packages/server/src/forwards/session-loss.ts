/**
 * True when an answer to a request that carried a session id says that the upstream no longer knows the session, so
 * that nothing was executed and the request may be repeated after a new `initialize` (mcp 4).
 *
 * 404 is the protocol's way to say so. The reference server says 400 with -32000 (`No valid session ID provided`), as do
 * the many that were modelled on it; `code` is that of the JSON-RPC error in the answer, if there was one.
 */
export function tellsSessionLost(status: number, code: number | undefined): boolean {
  return status === 404 || (status === 400 && code === -32000);
}
