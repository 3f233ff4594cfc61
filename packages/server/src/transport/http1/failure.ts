import { UpstreamError } from '../upstream-error.ts';
import { MalformedResponse } from './malformed-response.ts';

/** Failures to connect that say nothing about the other side. */
const OURS: ReadonlySet<string> = new Set(['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'EADDRNOTAVAIL']);

/** Sorts what ended a connection by what it means for its call. `sent`: whether the upstream may have the request. */
export function connectionFailure(address: string, cause: Error, sent: boolean): UpstreamError {
  if (cause instanceof MalformedResponse) {
    const what =
      cause.kind === 'too-large'
        ? 'answered with more header bytes than are accepted'
        : `did not answer in HTTP/1.1: ${cause.message}`;
    return new UpstreamError(cause.kind, address, what, { cause });
  }
  const code = 'code' in cause && typeof cause.code === 'string' ? cause.code : cause.message;
  if (sent) {
    const what = `closed the connection before the answer was complete (${code})`;
    return new UpstreamError('dropped', address, what, { cause });
  }
  if (OURS.has(code)) {
    const what = `could not be connected to: there are no more connections to be had here (${code})`;
    return new UpstreamError('aborted', address, what, { cause });
  }
  let what = `could not be connected to (${code}: ${cause.message})`;
  if (code === 'ECONNREFUSED') what = 'refused the connection (ECONNREFUSED)';
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') what = `has a host name that cannot be resolved (${code})`;
  return new UpstreamError('refused', address, what, { cause });
}

/** No connection in the time there is for it. */
export function connectTimeout(address: string, afterMs: number): UpstreamError {
  return new UpstreamError('refused', address, `accepted no connection within ${afterMs / 1000} s`);
}

/** No answer in the time there is for its first byte. */
export function answerTimeout(address: string, afterMs: number): UpstreamError {
  return new UpstreamError('timeout', address, `began no answer within ${afterMs / 1000} s`);
}

/** A request whose body is not what it said; `how` completes "its body …". */
export function bodyFailure(address: string, how: string): UpstreamError {
  return new UpstreamError('aborted', address, `was not sent the whole request: its body ${how}`);
}

/** A request that cannot be written. */
export function unsendable(address: string, cause: Error): UpstreamError {
  return new UpstreamError('invalid', address, `cannot be sent this request: ${cause.message}`, { cause });
}

/** A request to an upstream whose connections were given up. */
export function noLongerInUse(address: string): UpstreamError {
  return new UpstreamError('aborted', address, 'is no longer in use: the request was ended');
}

/** An answer that leads elsewhere; only the origin of the place is shown. */
export function redirected(address: string, status: number, location: string | string[] | undefined): UpstreamError {
  const target =
    typeof location === 'string' && URL.canParse(location, address) ? new URL(location, address) : undefined;
  const where = target === undefined ? 'without saying where to' : `to ${target.origin}`;
  const what = `redirects ${where} (HTTP ${status}), which is not followed: register the address it means`;
  return new UpstreamError('redirect', address, what, { status });
}
