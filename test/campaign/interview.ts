import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { parseObject } from '../fixtures/raw-upstream/message.ts';
import type { ReadEvent, Reading } from './event-reader.ts';
import type { SessionClient } from './session-client.ts';

/** What a client does during one call. */
export type Manner =
  /** Answers all questions and waits for the result. */
  | 'patient'
  /** The same, with its connection cut once and taken up again. */
  | 'cutting'
  /** The same, reading nothing for a while. */
  | 'slow'
  /** Cancels the call when it is asked something. */
  | 'cancelling'
  /** Answers nothing, and leaves. */
  | 'leaving';

/** How long a slow client reads nothing, and how long anybody waits for a call's end, in milliseconds. */
const SLOW_MS = 1_000;
const LIMIT_MS = 60_000;
/** The answers' places in the tool's result. */
const PLACES: Readonly<Record<string, number>> = {
  'elicitation/create': 0,
  'sampling/createMessage': 1,
  'roots/list': 2,
};

/**
 * One call of the fixture's tool `interview`: answers each question with a secret of its own, and compares the result
 * with the secrets. Whatever comes on the call's stream that another call has caused is told to the witness.
 */
export class Interview {
  readonly #client: SessionClient;
  readonly #tool: string;
  readonly #id: number;
  readonly #manner: Manner;
  readonly #tag: string;
  readonly #secrets: string[] = [];
  readonly #over = Promise.withResolvers<void>();
  #reading: Reading | undefined = undefined;
  #lastEventId: string | undefined = undefined;
  #disturbed = false;
  /** What has happened, for a report of what went wrong. */
  readonly #seen: [number, string][] = [];
  readonly #begun = performance.now();
  #done = false;

  constructor(client: SessionClient, tool: string, id: number, manner: Manner) {
    this.#client = client;
    this.#tool = tool;
    this.#id = id;
    this.#manner = manner;
    this.#tag = `${client.name}.${id}`;
  }

  /** Resolves when the client has no more to do with the call. */
  async run(): Promise<void> {
    const padding = this.#manner === 'slow' ? { messages: 20, padding: 8_192 } : { messages: 2 };
    const params = {
      name: this.#tool,
      arguments: { tag: this.#tag, ...padding },
      _meta: { progressToken: this.#token },
    };
    const body = JSON.stringify({ jsonrpc: '2.0', id: this.#id, method: 'tools/call', params });
    const late = setTimeout(() => this.#late(), LIMIT_MS);
    try {
      await this.#read(this.#client.post(body, (event) => this.#onEvent(event)));
      await this.#over.promise;
    } catch (error) {
      if (!this.#client.ended) this.#reject(`call ended with ${String(error)}`);
    } finally {
      clearTimeout(late);
    }
    if (!this.#done && this.#client.ended && this.#manner !== 'leaving') this.#client.witness.left++;
    if (this.#manner === 'patient' && this.#done) this.#client.witness.times.push(performance.now() - this.#begun);
  }

  get #token(): string {
    return `token of ${this.#tag}`;
  }

  /** Reads an answer to its end. */
  async #read(asked: Promise<Reading>): Promise<void> {
    const reading = await asked;
    this.#reading = reading;
    if (this.#disturbed && this.#manner === 'leaving') reading.cut();
    reading.text.then(
      (text) => {
        if (text !== '' && reading.headers['content-type'] === 'application/json') this.#message(text);
        if (this.#done || this.#manner === 'cancelling' || this.#client.ended) return this.#finish();
        // The gateway may send a client away to come back later (2025-11-25, "polling").
        if (this.#lastEventId !== undefined) return this.#comeBack(reading, this.#lastEventId);
        return this.#reject(`the answer ended without the result (${reading.status})`);
      },
      () => this.#cut(),
    );
  }

  /** The connection was cut, which only the client itself or the end of its session does. */
  #cut(): void {
    if (this.#client.ended || this.#manner === 'leaving') return this.#finish();
    if (this.#done) return;
    if (this.#manner === 'cutting' && this.#disturbed) return;
    this.#reject('the connection was cut');
  }

  #onEvent({ id, data }: ReadEvent): void {
    this.#lastEventId = id ?? this.#lastEventId;
    if (data !== '') this.#message(data);
  }

  #message(data: string): void {
    const message = parseObject(data);
    const params = parseObject(message.params);
    const { witness } = this.#client;
    this.#note(String(message.method ?? 'response'));
    switch (message.method) {
      case undefined:
        return this.#answered(message);
      case 'notifications/progress':
        witness.notices++;
        if (params.progressToken !== this.#token || params.message !== this.#tag) this.#foreign(data);
        return this.#disturb();
      case 'notifications/message':
        witness.notices++;
        if (parseObject(params.data).tag !== this.#tag) this.#foreign(data);
        return this.#disturb();
      case 'notifications/cancelled':
        // A question that is no longer asked, as when the upstream has lost the session.
        if (this.#client.firstAsked(JSON.stringify(params.requestId))) this.#foreign(data);
        return;
      default:
        return this.#asked(message, params, data);
    }
  }

  #asked({ id, method }: Record<string, unknown>, params: Record<string, unknown>, data: string): void {
    const idText = JSON.stringify(id);
    const place = PLACES[String(method)];
    if (place === undefined || !data.includes(`"${this.#tag}"`)) return this.#foreign(data);
    if (!this.#client.firstAsked(idText)) return this.#reject(`was asked twice: ${data}`);
    this.#disturb(true);
    if (this.#manner === 'leaving' || (this.#manner === 'cancelling' && Math.random() < 0.5)) return;
    const secret = `${this.#tag}/${String(method)}/${randomUUID()}`;
    this.#secrets[place] = secret;
    const result = resultOf(place, secret);
    void this.#answer(JSON.stringify({ jsonrpc: '2.0', id, result }));
    if (params.requestedSchema === undefined && place === 0) this.#foreign(data);
  }

  async #answer(text: string): Promise<void> {
    await delay(Math.random() * 50);
    try {
      const status = await this.#client.tell(text);
      this.#note(`answer taken: ${status}`);
      if (status === 202) this.#client.witness.questions++;
    } catch (error) {
      if (!this.#client.ended) this.#reject(`its answer was not taken: ${String(error)}`);
    }
  }

  #answered({ id, result, error }: Record<string, unknown>): void {
    if (id !== this.#id) return this.#reject(`got the response to ${String(id)}`);
    if (this.#done) return this.#reject('got a second response');
    this.#done = true;
    const { witness } = this.#client;
    const [block] = Array.isArray(parseObject(result).content) ? Object(result).content : [];
    const answers = parseObject(parseObject(block).text);
    if (answers.tag === this.#tag && JSON.stringify(answers.answers) === JSON.stringify(this.#secrets)) {
      witness.answered++;
    } else if (error !== undefined || parseObject(result).isError === true) {
      this.#failed(JSON.stringify(error ?? result));
    } else {
      this.#reject(`its answers were ${JSON.stringify(this.#secrets)}, the result is ${JSON.stringify(result)}`);
    }
    this.#finish();
  }

  /** An error is right where the upstream was made to forget its sessions, and where the client itself ends the call. */
  #failed(text: string): void {
    if (this.#client.ended || this.#manner === 'cancelling') return;
    if (/HTTP 404|ended the event stream|no longer knows the session|Connection closed/.test(text)) {
      this.#client.witness.lost++;
      return;
    }
    this.#reject(`failed: ${text}`);
  }

  /** Does what this client does in the middle of a call, once: at some message, at the first question at the latest. */
  #disturb(now = this.#manner === 'slow'): void {
    if (this.#disturbed || (!now && Math.random() < 0.7)) return;
    this.#disturbed = true;
    const { witness } = this.#client;
    switch (this.#manner) {
      case 'patient':
        return;
      case 'slow':
        witness.slow++;
        this.#reading?.pause();
        setTimeout(() => this.#reading?.resume(), SLOW_MS);
        return;
      case 'cancelling':
        witness.cancelled++;
        void this.#client
          .tell(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":${this.#id}}}`)
          .catch(() => {});
        return;
      case 'leaving':
        witness.left++;
        this.#reading?.cut();
        return;
      case 'cutting':
        if (this.#lastEventId === undefined || this.#reading === undefined) this.#disturbed = false;
        else void this.#comeBack(this.#reading, this.#lastEventId);
    }
  }

  async #comeBack(reading: Reading, lastEventId: string): Promise<void> {
    reading.cut();
    this.#note('cut');
    await delay(Math.random() * 300);
    if (this.#client.ended) return this.#finish();
    this.#client.witness.resumed++;
    try {
      await this.#read(this.#client.get({ 'last-event-id': lastEventId }, (event) => this.#onEvent(event)));
    } catch (error) {
      if (!this.#client.ended) this.#reject(`could not come back: ${String(error)}`);
      this.#finish();
    }
  }

  #note(what: string): void {
    this.#seen.push([Math.round(performance.now() - this.#begun), what]);
  }

  #late(): void {
    const state = { status: this.#reading?.status, seen: this.#seen };
    this.#reject(`is not over after ${LIMIT_MS} ms: ${JSON.stringify(state)}`);
    this.#reading?.cut();
  }

  #foreign(data: string): void {
    this.#reject(`got a message that it did not cause: ${data.slice(0, 500)}`);
  }

  #reject(what: string): void {
    this.#client.witness.reject(`${this.#tag} (${this.#manner}): ${what}`);
    this.#finish();
  }

  #finish(): void {
    this.#over.resolve();
  }
}

function resultOf(place: number, secret: string): Record<string, unknown> {
  if (place === 0) return { action: 'accept', content: { answer: secret } };
  if (place === 1) return { role: 'assistant', model: 'none', content: { type: 'text', text: secret } };
  return { roots: [{ uri: 'file:///root', name: secret }] };
}
