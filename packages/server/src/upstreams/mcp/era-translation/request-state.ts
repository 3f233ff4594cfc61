import { createHash } from 'node:crypto';
import { parseJson } from '@sluice/protocol/json/parse';
import { members } from '@sluice/protocol/json/text';
import type { RequestMessage } from '@sluice/protocol/mcp/message';
import type { TokenSealer } from '@sluice/protocol/seal';
import { z } from 'zod';
import type { StoredPrincipal } from '../../../identity/principal.ts';

/** Owner and request of a suspended call: a retry must match all of it. */
export interface CallBinding {
  readonly namespace: string;
  readonly principal: Pick<StoredPrincipal, 'key'>;
  /** See {@link digestOf}. */
  readonly digest: string;
}

/** Content of a `requestState`. */
export interface RequestState extends Omit<CallBinding, 'principal'> {
  /** {@link hashOf} the key of the principal, which may be long. */
  readonly principalHash: string;
  /** Id of the suspended call, which names the process that stores it. */
  readonly call: string;
  /** Number of the suspension: the state of an earlier one is invalid. */
  readonly round: number;
}

/** Error message for a `requestState` that was not issued for the request that it comes with. */
export const FOREIGN_STATE = 'parameter "requestState" was not issued for this request';

/** Maximum length of a sealed state; ours are shorter. */
const MAX_LENGTH = 4096;

/** Call, round, namespace, hash of the principal, and digest. */
const contentSchema = z.tuple([z.string(), z.number(), z.string(), z.string(), z.string()]);

/** Seals the content of `requestState`, so that clients can neither read nor change nor forge it (2026-07-28, MRTR). */
export class RequestStates {
  readonly #sealer: TokenSealer;

  constructor(sealer: TokenSealer) {
    this.#sealer = sealer;
  }

  seal({ call, round, namespace, principal, digest }: Pick<RequestState, 'call' | 'round'> & CallBinding): string {
    const content = [call, round, namespace, hashOf(principal.key), digest];
    return this.#sealer.seal('requestState', JSON.stringify(content));
  }

  /** Returns undefined for anything that was not sealed with our key. */
  open(sealed: string): RequestState | undefined {
    const text = sealed.length <= MAX_LENGTH ? this.#sealer.open('requestState', sealed) : undefined;
    const content = text === undefined ? undefined : contentSchema.safeParse(parseJson(text)).data;
    if (!content) return undefined;
    const [call, round, namespace, principalHash, digest] = content;
    return { call, round, namespace, principalHash, digest };
  }
}

/** Returns the SHA-256 hash of a text, in base64url. */
export function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('base64url');
}

/** Params that may differ between a request and its retry. */
const RETRY_SPECIFIC: ReadonlySet<string> = new Set(['_meta', 'inputResponses', 'requestState']);

/** Returns the digest of a request that its retries share: of its method and the text of its params. */
export function digestOf({ method, text, paramsRange }: RequestMessage): string {
  const params = paramsRange ? [...members(text, paramsRange.start)] : [];
  const parts = params
    .filter(({ key }) => !RETRY_SPECIFIC.has(key))
    .map(({ key, start, end }) => `${JSON.stringify(key)}:${text.slice(start, end)}`)
    .sort();
  const hash = createHash('sha256').update(method);
  for (const part of parts) hash.update('\n').update(part);
  return hash.digest('base64url');
}
