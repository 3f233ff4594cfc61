import { at, parseJson } from './caller.ts';
import { streamToken } from './messages.ts';

/** Content of an event stream: progress and result of a tool call, or chunks of a chat completion. */
export type StreamKind = 'progress' | 'completion';

/** Validator of an event stream. */
export interface StreamCheck {
  /**
   * Takes the data of the next event.
   *
   * @returns when it was sent, by the system's monotonic clock in nanoseconds; undefined for one that is not counted
   * @throws Error when it is not the event whose turn it is
   */
  take(data: string): number | undefined;
  /** Number of counted events. */
  readonly count: number;
  /** True after the last event. */
  readonly over: boolean;
}

/** Creates the validator of the stream with this index and `events` counted events. */
export function checkStream(kind: StreamKind, index: number, events: number): StreamCheck {
  return kind === 'progress' ? new ProgressCheck(index, events) : new CompletionCheck(index, events);
}

class ProgressCheck implements StreamCheck {
  readonly #index: number;
  readonly #events: number;
  count = 0;
  over = false;

  constructor(index: number, events: number) {
    this.#index = index;
    this.#events = events;
  }

  take(data: string): number | undefined {
    const value = parseJson(data);
    const params = at(value, 'params');
    if (params === undefined) {
      if (at(value, 'id') !== this.#index || at(value, 'result') === undefined) {
        throw new Error(`unexpected event: ${data}`);
      }
      this.over = this.count === this.#events;
      if (!this.over) throw new Error(`ended after ${this.count} of ${this.#events} events`);
      return undefined;
    }
    const right = at(params, 'progressToken') === streamToken(this.#index) && at(params, 'progress') === this.count + 1;
    if (!right) throw new Error(`unexpected event after ${this.count}: ${data}`);
    this.count++;
    return Number.parseInt(String(at(params, 'message')), 10);
  }
}

class CompletionCheck implements StreamCheck {
  readonly #id: string;
  readonly #events: number;
  #last: 'content' | 'finish' | 'usage' = 'content';
  count = 0;
  over = false;

  constructor(index: number, events: number) {
    this.#id = completionId(streamToken(index));
    this.#events = events;
  }

  take(data: string): number | undefined {
    if (data === '[DONE]' && this.#last === 'usage') {
      this.over = true;
      return undefined;
    }
    const value = parseJson(data);
    if (this.over || at(value, 'id') !== this.#id) throw new Error(`unexpected event after ${this.count}: ${data}`);
    const content = at(value, 'choices', 0, 'delta', 'content');
    if (typeof content === 'string' && this.#last === 'content') {
      const [sent, place] = content.split(' ');
      if (place !== `#${this.count + 1}`) throw new Error(`unexpected event after ${this.count}: ${data}`);
      this.count++;
      return Number(sent);
    }
    const finished = at(value, 'choices', 0, 'finish_reason') === 'stop' && this.count === this.#events;
    const used = at(value, 'usage', 'completion_tokens') === this.#events && this.#last === 'finish';
    if (!finished && !used) throw new Error(`unexpected event after ${this.count} of ${this.#events}: ${data}`);
    this.#last = used ? 'usage' : 'finish';
    return undefined;
  }
}

/** Returns the completion id that the server uses for this `user`. */
export const completionId = (user: string): string => `chatcmpl-${user}`;
