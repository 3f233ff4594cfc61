import { createHash } from 'node:crypto';
import { at, parseJson } from './caller.ts';
import { streamToken } from './messages.ts';

/** What an event stream consists of: progress of a tool call and its result, or the chunks of a chat completion. */
export type StreamKind = 'progress' | 'completion';

/** Checks one event stream while it is read. */
export interface StreamCheck {
  /**
   * Takes the data of the next event.
   *
   * @returns when it was sent, by the system's monotonic clock in nanoseconds; undefined for one that is not counted
   * @throws Error when it is not the event whose turn it is
   */
  take(data: string): number | undefined;
  /** Counted events so far. */
  readonly count: number;
  /** Whether the last one has come. */
  readonly over: boolean;
  /** SHA-256 of the text that a completion's chunks make; undefined for progress. */
  digest(): string | undefined;
}

/** Makes the check of the stream with this index, which is to bring `events` counted events. */
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

  digest(): undefined {}
}

class CompletionCheck implements StreamCheck {
  readonly #id: string;
  readonly #events: number;
  readonly #text = createHash('sha256');
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
      this.#text.update(content);
      return Number(sent);
    }
    const finished = at(value, 'choices', 0, 'finish_reason') === 'stop' && this.count === this.#events;
    const used = at(value, 'usage', 'completion_tokens') === this.#events && this.#last === 'finish';
    if (!finished && !used) throw new Error(`unexpected event after ${this.count} of ${this.#events}: ${data}`);
    this.#last = used ? 'usage' : 'finish';
    return undefined;
  }

  digest(): string {
    return this.#text.digest('hex');
  }
}

/** The id of the completion that the bench's server makes for this `user`. */
export const completionId = (user: string): string => `chatcmpl-${user}`;
