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

/** Whose request a body belongs to: memory is shared between namespaces, and within one between users. */
export interface BodyHolder {
  readonly namespace: string;
  /** User that an authenticating proxy names, else the address of the client. */
  readonly user: string;
}

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
  readonly holder: BodyHolder;
  readonly startedAt: number;
  /** Ends the request; undefined once the body is complete. */
  end: (() => void) | undefined;
  bytes: number;
}

/** Memory that the bodies of one namespace or user hold. */
interface Share {
  bytes: number;
  readonly users: Map<string, number>;
}

/**
 * Limits the memory of all request bodies in flight (decisions 10.4). When it is used up, a request of a holder that has less
 * than its share takes the place of the slowest upload of the largest holder; a namespace is a holder, and within it a user.
 * Any other request takes the place of slower uploads of its own holder, or is rejected.
 */
export class BodyBudget {
  readonly #limit: number;
  readonly #now: () => number;
  readonly #uploads = new Set<Upload>();
  readonly #shares = new Map<string, Share>();
  #used = 0;

  /** `now` returns milliseconds of a monotonic clock. */
  constructor(limit: number = MAX_BODIES_BYTES, now: () => number = () => performance.now()) {
    this.#limit = limit;
    this.#now = now;
  }

  /** Bytes in use. */
  get used(): number {
    return this.#used;
  }

  /** Registers a body that is larger than {@link SMALL_BODY_BYTES}. `end` is called when it has to make room for others. */
  open(holder: BodyHolder, end: () => void): BodyReservation {
    const upload: Upload = { holder, startedAt: this.#now(), end, bytes: 0 };
    this.#uploads.add(upload);
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
    while (this.#used + more > this.#limit) {
      const victim = this.#victim(upload);
      if (!victim) {
        this.#release(upload);
        return false;
      }
      const { end } = victim;
      this.#release(victim);
      end?.();
    }
    this.#add(upload, more);
    return true;
  }

  /** The upload that makes room for another one; undefined if none has to. */
  #victim(upload: Upload): Upload | undefined {
    const { namespace, user } = upload.holder;
    const own = this.#shares.get(namespace);
    const largest = largestOf(this.#shares, ({ bytes }) => bytes);
    const isBelow = (own?.bytes ?? 0) < this.#limit / countWith(this.#shares, namespace);
    if (isBelow && largest && largest.key !== namespace) return this.#slowestOf(largest.key, largest.value.users);

    const users = own?.users ?? NO_USERS;
    const first = largestOf(users, (bytes) => bytes);
    const isUserBelow = (users.get(user) ?? 0) < (own?.bytes ?? 0) / countWith(users, user);
    if (isUserBelow && first && first.key !== user) return this.#slowestOf(namespace, users);

    const now = this.#now();
    const speed = now - upload.startedAt < MEASURED_MS ? Number.POSITIVE_INFINITY : speedOf(upload, now);
    return this.#slowest(
      (other) =>
        other.holder.namespace === namespace &&
        other.holder.user === user &&
        now - other.startedAt >= MEASURED_MS &&
        speedOf(other, now) < speed,
    );
  }

  /** The upload of the largest user of a namespace that makes room. */
  #slowestOf(namespace: string, users: ReadonlyMap<string, number>): Upload | undefined {
    const user = largestOf(users, (bytes) => bytes)?.key;
    return this.#slowest(({ holder }) => holder.namespace === namespace && holder.user === user);
  }

  /** The slowest of the incomplete uploads whose speed is known, else the oldest one. */
  #slowest(isCandidate: (upload: Upload) => boolean): Upload | undefined {
    const now = this.#now();
    let slowest: Upload | undefined;
    let oldest: Upload | undefined;
    for (const upload of this.#uploads) {
      if (upload.end === undefined || upload.bytes === 0 || !isCandidate(upload)) continue;
      // In the order of their start.
      oldest ??= upload;
      if (now - upload.startedAt < MEASURED_MS) continue;
      if (slowest === undefined || speedOf(upload, now) < speedOf(slowest, now)) slowest = upload;
    }
    return slowest ?? oldest;
  }

  #add(upload: Upload, more: number): void {
    const { namespace, user } = upload.holder;
    upload.bytes += more;
    this.#used += more;
    let share = this.#shares.get(namespace);
    if (!share) {
      share = { bytes: 0, users: new Map() };
      this.#shares.set(namespace, share);
    }
    share.bytes += more;
    share.users.set(user, (share.users.get(user) ?? 0) + more);
  }

  #release(upload: Upload): void {
    if (!this.#uploads.delete(upload)) return;
    const { bytes, holder } = upload;
    const share = this.#shares.get(holder.namespace);
    upload.bytes = 0;
    this.#used -= bytes;
    if (!share) return;
    share.bytes -= bytes;
    const left = (share.users.get(holder.user) ?? 0) - bytes;
    if (left > 0) share.users.set(holder.user, left);
    else share.users.delete(holder.user);
    if (share.users.size === 0) this.#shares.delete(holder.namespace);
  }
}

const NO_USERS: ReadonlyMap<string, number> = new Map();

/** Bytes per millisecond. */
function speedOf({ bytes, startedAt }: Upload, now: number): number {
  return bytes / Math.max(now - startedAt, 1);
}

/** The entry with the most bytes. */
function largestOf<T>(
  entries: ReadonlyMap<string, T>,
  bytesOf: (value: T) => number,
): { readonly key: string; readonly value: T } | undefined {
  let largest: { readonly key: string; readonly value: T } | undefined;
  for (const [key, value] of entries) {
    if (largest === undefined || bytesOf(value) > bytesOf(largest.value)) largest = { key, value };
  }
  return largest;
}

/** Number of holders, including this one. */
function countWith(holders: ReadonlyMap<string, unknown>, holder: string): number {
  return holders.size + (holders.has(holder) ? 0 : 1);
}
