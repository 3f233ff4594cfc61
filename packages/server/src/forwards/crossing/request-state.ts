import { createHash } from 'node:crypto';
import { parseJson } from '@sluice/protocol/json/parse';
import { members } from '@sluice/protocol/json/scan';
import type { RequestMessage } from '@sluice/protocol/mcp/message';
import type { Sealer } from '@sluice/protocol/seal';

/** Whose a parked call is, and for what: a retry has to agree in all of it (mcp 5). */
export interface Binding {
  readonly namespace: string;
  /** Where an authenticating proxy names one. */
  readonly user: string | undefined;
  /** See {@link digestOf}. */
  readonly digest: string;
}

/** What a `requestState` of ours says; of the user only {@link hashOf} the name, which may be long. */
export interface RequestState extends Binding {
  /** Names the parked call, and the process that holds it. */
  readonly call: string;
  /** How often the call had been parked: an earlier state is of no use any more. */
  readonly round: number;
}

/** Longer than any of ours: what does not fit is not opened. */
const MAX_LENGTH = 4096;

/** Seals what `requestState` says, so that clients can neither read nor change nor make it (2026-07-28, MRTR). */
export class RequestStates {
  readonly #sealer: Sealer;

  constructor(sealer: Sealer) {
    this.#sealer = sealer;
  }

  /** `user` is the name itself. */
  seal({ call, round, namespace, user, digest }: RequestState): string {
    return this.#sealer.seal('requestState', JSON.stringify([call, round, namespace, hashOf(user) ?? null, digest]));
  }

  /** Undefined for anything that was not sealed with our key. */
  open(sealed: string): RequestState | undefined {
    const text = sealed.length <= MAX_LENGTH ? this.#sealer.open('requestState', sealed) : undefined;
    const value: unknown = text === undefined ? undefined : parseJson(text);
    if (!Array.isArray(value)) return undefined;
    const [call, round, namespace, user, digest]: unknown[] = value;
    if (typeof call !== 'string' || typeof round !== 'number') return undefined;
    if (typeof namespace !== 'string' || typeof digest !== 'string') return undefined;
    return { call, round, namespace, user: typeof user === 'string' ? user : undefined, digest };
  }
}

/** Stands for a text of any length. */
export function hashOf(text: string | undefined): string | undefined {
  return text === undefined ? undefined : createHash('sha256').update(text).digest('base64url');
}

/** Members of params that may differ between a request and its retry. */
const OF_ONE_TRY: ReadonlySet<string> = new Set(['_meta', 'inputResponses', 'requestState']);

/** What makes a request the same one when it is sent again: its method, and its params as they were written. */
export function digestOf({ method, text, paramsRange }: RequestMessage): string {
  const params = paramsRange ? [...members(text, paramsRange.start)] : [];
  const parts = params
    .filter(({ key }) => !OF_ONE_TRY.has(key))
    .map(({ key, start, end }) => `${JSON.stringify(key)}:${text.slice(start, end)}`)
    .sort();
  const hash = createHash('sha256').update(method);
  for (const part of parts) hash.update('\n').update(part);
  return hash.digest('base64url');
}
