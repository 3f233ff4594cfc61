import type { ReceivedHead } from '../identity/authenticator.ts';

/** Head of an HTTP request as it arrives, or of one message of a batch. */
export interface RequestHead extends ReceivedHead {
  readonly method: string;
  /** True for one message of a batch; the HTTP request is observed separately. */
  readonly inBatch: boolean;
}
