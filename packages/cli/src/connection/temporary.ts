import { ApiError } from '@sluice/contract/client';
import { networkFailure } from '../http/network.ts';
import { SilenceFailure } from '../http/silence.ts';

const REQUEST_TIMEOUT = 408;
const TOO_MANY_REQUESTS = 429;

/**
 * Whether a request that failed so may go well later without anybody doing something about it: the service, what stands
 * before it, or the network is away. What is refused stays refused.
 */
export function isTemporary(error: unknown, host: string): boolean {
  if (error instanceof ApiError) {
    return error.status >= 500 || error.status === REQUEST_TIMEOUT || error.status === TOO_MANY_REQUESTS;
  }
  return error instanceof SilenceFailure || networkFailure(error, host) !== undefined;
}
