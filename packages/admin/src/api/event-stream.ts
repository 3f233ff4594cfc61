import type { Connection } from './connection.ts';

/** Topics of the event stream, and `missed`: events were skipped, so everything may have changed. */
const TOPICS = ['tool-calls', 'tasks', 'forwards', 'services', 'evaluators', 'registry', 'missed'] as const;
export type EventTopic = (typeof TOPICS)[number];

/** Receives the parsed data of an event. */
type Listener = (data: unknown) => void;

const FIRST_RETRY_MS = 1_000;
const LAST_RETRY_MS = 30_000;

/**
 * The one event stream of the service that all pages share. It is open while a page listens. The browser resumes a broken
 * connection after the last event; a stream that the service rejects is opened again with backoff.
 */
export class EventStream {
  readonly #url: string;
  readonly #connection: Connection;
  readonly #listeners = new Map<EventTopic, Set<Listener>>();
  #source: EventSource | undefined;
  /** Topics of the open stream. */
  #topics = '';
  #isScheduled = false;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #retryMs = FIRST_RETRY_MS;

  constructor(url: string, connection: Connection) {
    this.#url = url;
    this.#connection = connection;
  }

  /** Whether events arrive; otherwise pages have to poll. */
  get isOpen(): boolean {
    return this.#source?.readyState === EventSource.OPEN;
  }

  /** Calls the listener with each event of the topic until the returned function is called. */
  listen(topic: EventTopic, listener: Listener): () => void {
    const listeners = this.#listeners.get(topic) ?? new Set();
    this.#listeners.set(topic, listeners.add(listener));
    this.#schedule();
    return () => {
      listeners.delete(listener);
      if ([...this.#listeners.values()].every(({ size }) => size === 0)) this.#close();
      else this.#schedule();
    };
  }

  /** Opens the stream once for all listeners that a page adds or removes. */
  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    queueMicrotask(() => {
      this.#isScheduled = false;
      this.#open();
    });
  }

  /** Topics with listeners: tool calls are many, and only pages that show them should cost that. */
  #wanted(): string {
    return TOPICS.filter((topic) => topic !== 'missed' && (this.#listeners.get(topic)?.size ?? 0) > 0).join();
  }

  /** Opens the stream if there is none, or one of other topics: then everything may have changed in between. */
  #open(): void {
    if (this.#retry !== undefined) return;
    const topics = this.#wanted();
    if (topics === '' || (this.#source && topics === this.#topics)) return;
    const isReplaced = this.#source !== undefined;
    this.#source?.close();
    const source = new EventSource(`${this.#url}?topics=${topics}`);
    this.#source = source;
    this.#topics = topics;
    if (isReplaced) for (const listener of this.#listeners.get('missed') ?? []) listener({ topics: topics.split(',') });
    source.onopen = () => {
      this.#retryMs = FIRST_RETRY_MS;
      this.#connection.onHeard();
    };
    source.onerror = () => {
      if (source.readyState !== EventSource.CLOSED) return this.#connection.onUnreachable();
      this.#close();
      this.#retry = setTimeout(() => {
        this.#retry = undefined;
        this.#open();
      }, this.#retryMs);
      this.#retryMs = Math.min(2 * this.#retryMs, LAST_RETRY_MS);
    };
    for (const topic of TOPICS) {
      source.addEventListener(topic, ({ data }) => {
        this.#connection.onHeard();
        const parsed: unknown = JSON.parse(data);
        for (const listener of this.#listeners.get(topic) ?? []) listener(parsed);
      });
    }
  }

  #close(): void {
    clearTimeout(this.#retry);
    this.#retry = undefined;
    this.#source?.close();
    this.#source = undefined;
  }
}
