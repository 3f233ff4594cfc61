import type { ReceivedHead } from '../identity/authenticator.ts';

/** Head of an HTTP request as it arrives, or of one message of a batch. */
export interface RequestHead extends ReceivedHead {
  readonly method: string;
  /** Name of the listener. */
  readonly listener: string;
  readonly scheme: 'http' | 'https';
  /** True for one message of a batch; the HTTP request has a head of its own. */
  readonly inBatch: boolean;
  /** `performance.now()` at its arrival. */
  readonly startedAt: number;
}

/** Names of the listeners that no pipeline file defines: of the management API, and of requests from other replicas. */
export const MANAGEMENT_LISTENER = 'management';
export const REPLICA_LISTENER = 'peer';

/** Returns what a call was made through, if not by a client itself: the console uses the management listener. */
export function viaOf({ listener }: Pick<RequestHead, 'listener'>): 'console' | undefined {
  return listener === MANAGEMENT_LISTENER ? 'console' : undefined;
}
