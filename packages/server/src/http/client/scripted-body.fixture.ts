import type { BodySink, StreamedBody } from './client.ts';

/** A request body that the test writes piece by piece. */
export class ScriptedBody implements StreamedBody {
  readonly length: number | undefined;
  /** The callbacks, in order. */
  readonly log: string[] = [];
  readonly stopped: Promise<void>;
  /** Bytes that `pump` has written. */
  pumped = 0;
  readonly #started = Promise.withResolvers<BodySink>();
  readonly #stopped = Promise.withResolvers<void>();
  readonly #onStart: (sink: BodySink) => void;
  #resumed = Promise.withResolvers<void>();

  /** `onStart` is called when the body is started. */
  constructor(length: number | undefined, onStart: (sink: BodySink) => void = () => undefined) {
    this.length = length;
    this.stopped = this.#stopped.promise;
    this.#onStart = onStart;
  }

  /** Sink, once the body is started. */
  get sink(): Promise<BodySink> {
    return this.#started.promise;
  }

  /** Writes bytes in chunks of 16 KiB with backpressure; ends when the body is stopped. */
  async pump(bytes: number): Promise<void> {
    const sink = await this.sink;
    const piece = Buffer.alloc(16 * 1024, 'x');
    while (this.pumped < bytes && !this.log.includes('stop')) {
      this.#resumed = Promise.withResolvers();
      const next = piece.subarray(0, bytes - this.pumped);
      this.pumped += next.length;
      if (!sink.write(next)) await Promise.race([this.#resumed.promise, this.stopped]);
    }
  }

  start(sink: BodySink): void {
    this.log.push('start');
    this.#onStart(sink);
    this.#started.resolve(sink);
  }

  resume(): void {
    this.log.push('resume');
    this.#resumed.resolve();
  }

  stop(): void {
    this.log.push('stop');
    this.#stopped.resolve();
  }
}
