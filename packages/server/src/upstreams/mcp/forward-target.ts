import { isDeepStrictEqual } from 'node:util';
import type { Secrets } from '../../http/secrets/secrets.ts';
import type { Forward } from '../../registry/entries.ts';
import { OperationError } from '../../registry/operation-error.ts';
import { secretOrigins } from './upstream.ts';

/** What requests to a forward depend on. */
export type ForwardTarget = Pick<Forward, 'address' | 'headers' | 'proxy' | 'compression'>;

/** Whether a change of a forward requires a discovery: it is new, is reached in another way, or exposes other entries. */
export function needsDiscovery(before: Forward | undefined, after: Forward): boolean {
  return (
    before?.registrationId !== after.registrationId ||
    connectionOf(before) !== connectionOf(after) ||
    !isDeepStrictEqual(before.expose, after.expose)
  );
}

/** Text of what requests to a forward depend on, for comparison. */
export function connectionOf({ address, headers = {}, proxy, compression }: ForwardTarget): string {
  return JSON.stringify([address, Object.entries(headers).sort(), proxy, compression]);
}

/** Rejects headers whose secrets must not be sent to the address, or to the proxy; OperationError BAD_REQUEST. */
export function rejectUnusableHeaders(secrets: Secrets, forward: ForwardTarget): void {
  const origins = secretOrigins(forward);
  for (const [name, value] of Object.entries(forward.headers ?? {})) {
    const problem = origins.map((origin) => secrets.problem(value, origin)).find((found) => found !== undefined);
    if (problem !== undefined) throw new OperationError('BAD_REQUEST', `invalid forward: headers.${name} ${problem}`);
  }
}
