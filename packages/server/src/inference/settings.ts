import { formatAddress, type HttpUpstream, httpUpstream } from '../http/address.ts';

/** A change of {@link InferenceSettings}. */
export interface InferenceChange {
  /** In the format of SERVICE_INFERENCE_UPSTREAM (decisions 1.2). */
  readonly upstream?: string | undefined;
  /** Integer from 0 to 1000000. */
  readonly capacity?: number | undefined;
}

/**
 * Settings of the inference listener that can be changed at run time (decisions 4.4); changes are not persisted (decisions
 * 1.5).
 */
export class InferenceSettings {
  readonly #store: { capacity: number };
  readonly #onUpstream: (upstream: HttpUpstream) => void;
  #upstreamText: string;

  /** The capacity is that of the store. `onUpstream` is called whenever the upstream is set. */
  constructor(upstream: HttpUpstream, store: { capacity: number }, onUpstream: (upstream: HttpUpstream) => void) {
    this.#upstreamText = formatUpstream(upstream);
    this.#store = store;
    this.#onUpstream = onUpstream;
  }

  /** The upstream of new requests, as it was submitted. */
  get upstreamText(): string {
    return this.#upstreamText;
  }

  /** Maximum number of stored interactions. */
  get capacity(): number {
    return this.#store.capacity;
  }

  /** Changes these settings from the next request on. Throws `ZodError` for an invalid upstream and changes nothing. */
  set({ upstream: text, capacity }: InferenceChange): void {
    const upstream = text === undefined ? undefined : httpUpstream.parse(text);
    if (capacity !== undefined) this.#store.capacity = capacity;
    if (text === undefined || upstream === undefined) return;
    this.#upstreamText = text;
    this.#onUpstream(upstream);
  }
}

/** Formats an upstream in its shortest form: `host:port` for http without a path. */
function formatUpstream(upstream: HttpUpstream): string {
  const { scheme, path } = upstream;
  const authority = formatAddress(upstream);
  return scheme === 'http' && path === '' ? authority : `${scheme}://${authority}${path}`;
}
