import { randomFillSync } from 'node:crypto';

/**
 * Ids have 30 random bits above this, so that servers in languages with 32-bit integers can read them. All have ten digits: the
 * heads of messages that are otherwise equal have the same `Content-Length`, and their parsers compare heads.
 */
const FIRST_ID = 2 ** 30;
const BATCH = 1_024;
/** Ids in use are told apart by so many of their lowest bits. */
const SLOTS = 2 ** 16;
/** Attempts to find an id with a free slot; with more requests in flight than slots, there may be none. */
const ATTEMPTS = 100;

/**
 * Ids of the requests to upstreams, which are their progress tokens too: integers from 2^30 to 2^31 - 1, since many servers
 * accept nothing else. Random, so that an upstream cannot refer to requests that it did not receive: to those of other users, or to
 * other upstreams. No two requests in flight have the same id.
 */
class RequestIds {
  readonly #random = new Uint32Array(BATCH);
  #used = BATCH;
  /** The ids in use, each at the place of its lowest bits. A `Set` would allocate with each request. */
  readonly #slots = new Int32Array(SLOTS);

  /** Returns the id of a new request to an upstream, to be released when the request has ended. */
  next(): number {
    let id = 0;
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      id = this.#draw();
      if (this.#slots[id % SLOTS] === 0) break;
    }
    this.#slots[id % SLOTS] = id;
    return id;
  }

  /** Allows an id to be used again. */
  release(id: number): void {
    if (this.#slots[id % SLOTS] === id) this.#slots[id % SLOTS] = 0;
  }

  #draw(): number {
    if (this.#used === BATCH) {
      randomFillSync(this.#random);
      this.#used = 0;
    }
    return FIRST_ID + ((this.#random[this.#used++] ?? 0) % FIRST_ID);
  }
}

/** Shared by all upstreams of the process: ids are unique in each upstream session. */
export const requestIds = new RequestIds();

/**
 * Whether an error with this id may be the response to any request: null or none, if the server could not read the request, or
 * the id that servers based on the Python SDK always use.
 */
export function isAnonymousId(received: unknown): boolean {
  return received === null || received === undefined || received === 'server-error';
}

/** Whether an id or progress token that an upstream sent is this one: `5`, `5.0` or `"5"` for 5. */
export function isSameId(id: number, received: unknown): boolean {
  return received === id || (typeof received === 'string' && received === String(id));
}
