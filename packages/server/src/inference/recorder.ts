import type { IncomingHttpHeaders } from 'node:http';
import type { TargetLogger } from '../telemetry/log.ts';
import { ExchangeRecording, type RecordedCompletion, type RecordingParts } from './exchange-recording.ts';
import type { InteractionStore } from './interaction-store.ts';
import { TeeBudget } from './tee-budget.ts';

/** What a recorder works with. */
export interface RecorderOptions {
  /** Its capacity is asked of it for each exchange. */
  readonly store: Pick<InteractionStore, 'capacity' | 'add'>;
  readonly log: TargetLogger;
  /** Bytes kept of each body (default 4 MiB, decisions 8). */
  readonly bodyLimit?: number;
  /** Bytes kept of all bodies of exchanges under way (default 256 MiB). */
  readonly underWayLimit?: number;
}

/**
 * Records the chat completions that pass (decisions 4.8). The relay tells of each exchange what it passes on, behind
 * having passed it on; nothing that it does here waits, throws or takes long.
 *
 * @example
 * const recording = recorder.begin(request.method, request.url, request.headers);
 * upstream.write(chunk);
 * recording?.requestChunk(chunk);
 */
export class InteractionRecorder {
  readonly #store: Pick<InteractionStore, 'capacity'>;
  readonly #parts: RecordingParts;

  constructor({ store, log, bodyLimit = 4 * 1024 * 1024, underWayLimit = 256 * 1024 * 1024 }: RecorderOptions) {
    this.#store = store;
    this.#parts = { store, log, bodyLimit, budget: new TeeBudget(underWayLimit) };
  }

  /**
   * An exchange whose request has just come, as it came. Undefined when nothing of it will be recorded. `told` is what is
   * to know of it too, once it was recorded.
   */
  begin(
    method: string,
    target: string,
    headers: IncomingHttpHeaders,
    told?: (completion: RecordedCompletion) => void,
  ): ExchangeRecording | undefined {
    if (method !== 'POST' || this.#store.capacity === 0) return undefined;
    return new ExchangeRecording(this.#parts, target, headers, told);
  }
}
