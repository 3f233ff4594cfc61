/** Bytes of the beginning of a body that are stored. */
const START_BYTES = 256;

/** Reads a response while it arrives, in steps. */
export interface BodyScan {
  /** Reads the next bytes of the body; returns true as soon as it needs no more. Throws `UpstreamError`. */
  write(chunk: Buffer): Promise<boolean>;
  /** Whether the response to the request has arrived. */
  readonly isFound: boolean;
  /** Whether the body is JSON so far; that of an event stream is not. */
  readonly isJson: boolean;
}

/** A body that is scanned while it arrives: the rest of it waits while the scan is busy. */
export class ScannedBody {
  readonly scan: BodyScan;
  /** The beginning, for messages. */
  start: Buffer = Buffer.alloc(0);
  isBusy = false;
  /** The response ended while the scan was busy. */
  hasEnded = false;
  /** Milliseconds for which the scan was busy, and since when it is. */
  #busyMs = 0;
  #busySince = 0;

  constructor(scan: BodyScan) {
    this.scan = scan;
  }

  /** Reads the next bytes; resolves with true if the scan needs no more. Rejects with the error of the scan. */
  async write(chunk: Buffer): Promise<boolean> {
    if (this.start.length === 0) this.start = Buffer.from(chunk.subarray(0, START_BYTES));
    this.isBusy = true;
    this.#busySince = performance.now();
    const isEnough = await this.scan.write(chunk);
    this.isBusy = false;
    this.#busyMs += performance.now() - this.#busySince;
    return isEnough;
  }

  /** Returns for how long the scan was busy since the last call, in milliseconds. */
  takeBusyMs(): number {
    const now = performance.now();
    const ms = this.#busyMs + (this.isBusy ? now - this.#busySince : 0);
    this.#busyMs = 0;
    this.#busySince = now;
    return ms;
  }
}
