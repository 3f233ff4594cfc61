import { ApiError } from '@sluice/contract/client';
import { explainNetworkError } from '../http/network.ts';
import { IdleTimeoutFailure } from '../http/silence.ts';

const REQUEST_TIMEOUT = 408;
const TOO_MANY_REQUESTS = 429;

/**
 * Whether a request that failed so may go well later without anybody doing something about it: the service, what stands
 * before it, or the network is away. What is refused stays refused.
 */
export function isTransient(error: unknown, host: string): boolean {
  if (error instanceof ApiError) {
    return error.status >= 500 || error.status === REQUEST_TIMEOUT || error.status === TOO_MANY_REQUESTS;
  }
  return error instanceof IdleTimeoutFailure || explainNetworkError(error, host) !== undefined;
}
