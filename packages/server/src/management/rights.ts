import type { ErrorCode, Right } from '@sluice/contract';
import type { Rejection } from '../http/host-rule.ts';
import type { Principal } from '../identity/principal.ts';
import { type ApiResponse, errorResponse, withHeaders } from './responses.ts';

/** The challenge of every 401: RFC 9110 requires one. */
const CHALLENGE = { 'www-authenticate': 'Bearer' };

const CODES: Readonly<Record<number, ErrorCode>> = { 401: 'UNAUTHORIZED', 403: 'FORBIDDEN', 503: 'UNAVAILABLE' };

/** Returns the response to a request that is rejected before its path is read. */
export function rejectedResponse({ status, reason, headers = [] }: Rejection): ApiResponse {
  const pairs = headers.flatMap((name, at) => (at % 2 === 0 ? [[name.toLowerCase(), headers[at + 1] ?? '']] : []));
  const response = { ...errorResponse(CODES[status] ?? 'BAD_REQUEST', reason), status };
  return withHeaders(response, { ...(status === 401 && CHALLENGE), ...Object.fromEntries(pairs) });
}

/** Returns the response to a principal without a right. */
export function deniedResponse({ kind }: Principal, right: Right): ApiResponse {
  if (kind !== 'anonymous') return errorResponse('FORBIDDEN', missingRight(right));
  return rejectedResponse({ status: 401, reason: 'authentication required' });
}

/** Returns the message for a principal without a right. */
export function missingRight(right: Right): string {
  return `missing right "${right}": no role of the caller has it`;
}
