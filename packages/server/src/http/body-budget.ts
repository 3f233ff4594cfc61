import { Quota, type QuotaOwner } from './quota.ts';

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
  /** The body is complete: it is not ended any more for another one. */
  complete(): void;
  /** The request is over. */
  release(): void;
}

interface Upload {
  readonly owner: QuotaOwner;
  readonly startedAt: number;
  /** Ends the request; undefined once the body is complete. */
  end: (() => void) | undefined;
  bytes: number;
}

/**
 * Limits the memory of all request bodies in flight with a {@link Quota}. An owner that has used it up ends slower uploads of its
 * own, or is rejected: of many clients behind one address, those that send slowly must not keep the others out.
 */
export class BodyBudget {
  readonly #quota: Quota<Upload>;
  readonly #now: () => number;

  /** `now` returns milliseconds of a monotonic clock. */
  constructor(limit: number = MAX_BODIES_BYTES, now: () => number = () => performance.now()) {
    this.#quota = new Quota(limit);
    this.#now = now;
  }

  /** Bytes in use. */
  get used(): number {
    return this.#quota.used;
  }

  /** Registers a body that is larger than {@link SMALL_BODY_BYTES}. `end` is called when a faster one needs its memory. */
  open(owner: QuotaOwner, end: () => void): BodyReservation {
    const upload: Upload = { owner, startedAt: this.#now(), end, bytes: 0 };
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
    while (!this.#quota.allows(upload.owner, more)) {
      const slower = this.#slowerThan(upload);
      if (!slower) {
        this.#release(upload);
        return false;
      }
      const { end } = slower;
      this.#release(slower);
      end?.();
    }
    upload.bytes = bytes;
    this.#quota.set(upload, upload.owner, bytes);
    return true;
  }

  /** The slowest of the incomplete uploads of the same owner that are known to be slower. */
  #slowerThan(upload: Upload): Upload | undefined {
    const now = this.#now();
    let slowest: Upload | undefined;
    let speed = now - upload.startedAt < MEASURED_MS ? Number.POSITIVE_INFINITY : speedOf(upload, now);
    for (const other of this.#quota.items(upload.owner)) {
      if (!other.end || now - other.startedAt < MEASURED_MS || speedOf(other, now) >= speed) continue;
      slowest = other;
      speed = speedOf(other, now);
    }
    return slowest;
  }

  #release(upload: Upload): void {
    this.#quota.delete(upload);
    upload.bytes = 0;
  }
}

/** Bytes per millisecond. */
function speedOf({ bytes, startedAt }: Upload, now: number): number {
  return bytes / Math.max(now - startedAt, 1);
}
