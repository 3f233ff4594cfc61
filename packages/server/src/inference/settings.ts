import { z } from 'zod';
import { formatAddress, type HttpUpstream, httpUpstream } from '../http/address.ts';
import type { Collection } from '../registry/store/collection.ts';

/** A change of {@link InferenceSettings}, as it is stored. */
export const inferenceChange = z.object({
  /** In the format of SERVICE_INFERENCE_UPSTREAM. */
  upstream: z
    .string()
    .refine((text) => httpUpstream.safeParse(text).success)
    .optional(),
  /** Integer from 0 to 1000000. */
  capacity: z.number().optional(),
});

/** A change of {@link InferenceSettings}. */
export type InferenceChange = Readonly<z.output<typeof inferenceChange>>;

type SharedSettings = Pick<Collection<InferenceChange>, 'entries' | 'put' | 'confirm' | 'changed'>;

/**
 * Settings of the inference listener that can be changed at run time; changes are not persisted, but shared by replicas.
 */
export class InferenceSettings {
  readonly #store: { capacity: number };
  readonly #onUpstream: (upstream: HttpUpstream) => void;
  readonly #shared: SharedSettings | undefined;
  #upstreamText: string;

  /**
   * The capacity is that of the store. `onUpstream` is called whenever the upstream is set. `shared`: the changes of all
   * replicas.
   */
  constructor(
    upstream: HttpUpstream,
    store: { capacity: number },
    onUpstream: (upstream: HttpUpstream) => void,
    shared?: SharedSettings,
  ) {
    this.#upstreamText = formatUpstream(upstream);
    this.#store = store;
    this.#onUpstream = onUpstream;
    this.#shared = shared;
    if (!shared) return;
    shared.changed.subscribe(({ content }) => content && this.#apply(content));
    for (const [, change] of shared.entries()) this.#apply(change);
  }

  /** The upstream of new requests, as it was submitted. */
  get upstreamText(): string {
    return this.#upstreamText;
  }

  /** Maximum number of stored interactions. */
  get capacity(): number {
    return this.#store.capacity;
  }

  /**
   * Changes these settings from the next request on: at once, or for all replicas; then it returns the ids of those that may not
   * have applied it. Throws `ZodError` for an invalid upstream and changes nothing.
   */
  set(change: InferenceChange): Promise<readonly string[]> | undefined {
    if (change.upstream !== undefined) httpUpstream.parse(change.upstream);
    const { upstreamText: upstream, capacity } = this;
    const shared = this.#shared;
    if (shared) return shared.put('settings', { upstream, capacity, ...change }).then(() => shared.confirm());
    this.#apply(change);
    return undefined;
  }

  #apply({ upstream: text, capacity }: InferenceChange): void {
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
