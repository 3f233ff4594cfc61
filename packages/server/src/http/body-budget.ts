import { type QuotaOwner, Shares } from './shares.ts';

/** Bodies up to this size are always admitted: they do not count. */
export const SMALL_BODY_BYTES = 64 * 1024;

/** Default of SERVICE_MAX_BODIES_BYTES. */
export const MAX_BODIES_BYTES = 256 * 1024 * 1024;

/** Reason of a rejection. */
export const NO_MEMORY = 'too many request bodies at once; try again later';

/** Value of Retry-After. */
export const RETRY_AFTER_SECONDS = '1';

/** Time after which the speed of an upload is known, in milliseconds. */
const MEASURED_MS = 1_000;

/** The memory of one body. */
export interface BodyReservation {
  /** Takes more memory, up to `bytes` in total. False if there is none: the request is rejected. */
  grow(bytes: number): boolean;
  /** The body is complete: it is not ended any more for the sake of others. */
  complete(): void;
  /** The request is over. */
  release(): void;
}

interface Upload {
  readonly holder: QuotaOwner;
  readonly startedAt: number;
  /** Ends the request; undefined once the body is complete. */
  end: (() => void) | undefined;
  bytes: number;
}

/**
 * Limits the memory of all request bodies in flight, which namespaces and users share (see {@link Shares}). Of the largest
 * holder, the slowest upload is ended to make room. A holder that has its share ends slower uploads of its own, or is rejected.
 */
export class BodyBudget {
  readonly #shares: Shares<Upload>;
  readonly #now: () => number;

  /** `now` returns milliseconds of a monotonic clock. */
  constructor(limit: number = MAX_BODIES_BYTES, now: () => number = () => performance.now()) {
    this.#shares = new Shares(limit);
    this.#now = now;
  }

  /** Bytes in use. */
  get used(): number {
    return this.#shares.used;
  }

  /** Registers a body that is larger than {@link SMALL_BODY_BYTES}. `end` is called when it has to make room for others. */
  open(holder: QuotaOwner, end: () => void): BodyReservation {
    const upload: Upload = { holder, startedAt: this.#now(), end, bytes: 0 };
    return {
      grow: (bytes) => this.#grow(upload, bytes),
      complete: () => {
        upload.end = undefined;
      },
      release: () => this.#release(upload),
    };
  }

  #grow(upload: Upload, bytes: number): boolean {
    const more = bytes - upload.bytes;
    if (more <= 0) return true;
    while (this.#shares.used + more > this.#shares.limit) {
      const victim = this.#victim(upload);
      if (!victim) {
        this.#release(upload);
        return false;
      }
      const { end } = victim;
      this.#release(victim);
      end?.();
    }
    upload.bytes = bytes;
    this.#shares.set(upload, upload.holder, bytes);
    return true;
  }

  /** The upload that makes room for another one; undefined if none has to. */
  #victim(upload: Upload): Upload | undefined {
    const displaceable = [...this.#shares.displaceable(upload.holder)];
    if (displaceable.length > 0) return this.#slowest(displaceable);
    const now = this.#now();
    const speed = now - upload.startedAt < MEASURED_MS ? Number.POSITIVE_INFINITY : speedOf(upload, now);
    const own = [...this.#shares.items(upload.holder)];
    return this.#slowest(own.filter((other) => now - other.startedAt >= MEASURED_MS && speedOf(other, now) < speed));
  }

  /** The slowest of the incomplete uploads whose speed is known, else the oldest one. */
  #slowest(uploads: readonly Upload[]): Upload | undefined {
    const now = this.#now();
    const incomplete = uploads.filter(({ end }) => end !== undefined);
    const measured = incomplete.filter(({ startedAt }) => now - startedAt >= MEASURED_MS);
    if (measured.length === 0) return incomplete[0];
    return measured.reduce((slowest, each) => (speedOf(each, now) < speedOf(slowest, now) ? each : slowest));
  }

  #release(upload: Upload): void {
    this.#shares.delete(upload);
    upload.bytes = 0;
  }
}

/** Bytes per millisecond. */
function speedOf({ bytes, startedAt }: Upload, now: number): number {
  return bytes / Math.max(now - startedAt, 1);
}
