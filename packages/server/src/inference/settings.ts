import { addressText, type HttpUpstream, httpUpstream } from '../http/address.ts';

/** What operators can change of the inference listener while it runs (decisions 4.4). */
export interface InferenceSettings {
  /** Where new requests go. */
  readonly upstream: HttpUpstream;
  /** The same as it was given. */
  readonly upstreamText: string;
  /** How many interactions are kept. */
  readonly capacity: number;
  /** Changes what is given, from the next request on. Throws a Refusal for an upstream of no known form, changing nothing. */
  set(change: InferenceChange): void;
}

export interface InferenceChange {
  /** As SERVICE_INFERENCE_UPSTREAM has it (decisions 1.2). */
  readonly upstream?: string | undefined;
  /** A whole number from 0 to 1000000. */
  readonly capacity?: number | undefined;
}

/** The settings of one process; they are not kept (decisions 1.5). */
export class CurrentInferenceSettings implements InferenceSettings {
  readonly #store: { capacity: number };
  readonly #listeners = new Set<(upstream: HttpUpstream) => void>();
  #upstream: HttpUpstream;
  #text: string;

  /** The capacity is that of the store. */
  constructor(upstream: HttpUpstream, store: { capacity: number }) {
    this.#upstream = upstream;
    this.#text = textOf(upstream);
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

  /** Calls back whenever an upstream is set. Returns what ends that. */
  onUpstream(listener: (upstream: HttpUpstream) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

/** An upstream as it may be written: `host:port` where that says all. */
function textOf(upstream: HttpUpstream): string {
  const { scheme, path } = upstream;
  const authority = addressText(upstream);
  return scheme === 'http' && path === '' ? authority : `${scheme}://${authority}${path}`;
}
