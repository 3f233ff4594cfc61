import { formatAddress, type HttpUpstream, httpUpstream } from '../http/address.ts';

/** Settings of the inference listener that can be changed at run time (decisions 4.4). */
export interface InferenceSettings {
  /** Upstream of new requests. */
  readonly upstream: HttpUpstream;
  /** The upstream as it was submitted. */
  readonly upstreamText: string;
  /** Maximum number of stored interactions. */
  readonly capacity: number;
  /** Changes the given settings from the next request on. Throws `ZodError` for an invalid upstream and changes nothing. */
  set(change: InferenceChange): void;
}

export interface InferenceChange {
  /** In the format of SERVICE_INFERENCE_UPSTREAM (decisions 1.2). */
  readonly upstream?: string | undefined;
  /** Integer from 0 to 1000000. */
  readonly capacity?: number | undefined;
}

/** Settings of this process; changes are not persisted (decisions 1.5). */
export class CurrentInferenceSettings implements InferenceSettings {
  readonly #store: { capacity: number };
  readonly #listeners = new Set<(upstream: HttpUpstream) => void>();
  #upstream: HttpUpstream;
  #text: string;

  /** The capacity is that of the store. */
  constructor(upstream: HttpUpstream, store: { capacity: number }) {
    this.#upstream = upstream;
    this.#text = formatUpstream(upstream);
    this.#store = store;
  }

  get upstream(): HttpUpstream {
    return this.#upstream;
  }

  get upstreamText(): string {
    return this.#text;
  }

  get capacity(): number {
    return this.#store.capacity;
  }

  set({ upstream: text, capacity }: InferenceChange): void {
    const upstream = text === undefined ? undefined : httpUpstream.parse(text);
    if (capacity !== undefined) this.#store.capacity = capacity;
    if (text === undefined || upstream === undefined) return;
    this.#text = text;
    this.#upstream = upstream;
    for (const listener of this.#listeners) listener(upstream);
  }

  /** Calls the listener whenever the upstream is set; returns a function that unsubscribes it. */
  onUpstream(listener: (upstream: HttpUpstream) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

/** Formats an upstream in its shortest form: `host:port` for http without a path. */
function formatUpstream(upstream: HttpUpstream): string {
  const { scheme, path } = upstream;
  const authority = formatAddress(upstream);
  return scheme === 'http' && path === '' ? authority : `${scheme}://${authority}${path}`;
}
