import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { parseObject } from '../fixtures/raw-upstream/message.ts';
import type { OpenResponse, ReadEvent } from './event-reader.ts';
import type { SessionClient } from './session-client.ts';

/** Behavior of a client during one call. */
export type Behavior =
  /** Responds to all server requests and waits for the result. */
  | 'patient'
  /** The same, with its connection dropped once and resumed. */
  | 'resuming'
  /** The same, without reading for a while. */
  | 'slow'
  /** Cancels the call at a message or at the first server request. */
  | 'canceling'
  /** Disconnects without a response. */
  | 'disconnecting';

/** Pause of a slow client, and timeout of a call, in milliseconds. */
const PAUSE_MS = 1_000;
const TIMEOUT_MS = 60_000;
/** Index of each response in the tool's result. */
const INDEXES: Readonly<Record<string, number>> = {
  'elicitation/create': 0,
  'sampling/createMessage': 1,
  'roots/list': 2,
};

/**
 * One call of the fixture's tool `interview`: responds to each server request with its own secret, and compares the result
 * with the secrets. Messages of other calls on the call's stream are recorded as failures.
 */
export class Interview {
  readonly #client: SessionClient;
  readonly #tool: string;
  readonly #id: number;
  readonly #behavior: Behavior;
  readonly #tag: string;
  readonly #secrets: string[] = [];
  readonly #finished = Promise.withResolvers<void>();
  #response: OpenResponse | undefined = undefined;
  #lastEventId: string | undefined = undefined;
  #hasActed = false;
  /** Milliseconds and kind of each event, for failure messages. */
  readonly #events: [number, string][] = [];
  readonly #start = performance.now();
  #isDone = false;

  constructor(client: SessionClient, tool: string, id: number, behavior: Behavior) {
    this.#client = client;
    this.#tool = tool;
    this.#id = id;
    this.#behavior = behavior;
    this.#tag = `${client.name}.${id}`;
  }

  /** Resolves when the client is done with the call. */
  async run(): Promise<void> {
    const padding = this.#behavior === 'slow' ? { messages: 20, padding: 8_192 } : { messages: 2 };
    const params = {
      name: this.#tool,
      arguments: { tag: this.#tag, ...padding },
      _meta: { progressToken: this.#token },
    };
    const body = JSON.stringify({ jsonrpc: '2.0', id: this.#id, method: 'tools/call', params });
    const timer = setTimeout(() => this.#onTimeout(), TIMEOUT_MS);
    try {
      await this.#read(this.#client.post(body, (event) => this.#onEvent(event)));
      await this.#finished.promise;
    } catch (error) {
      if (!this.#client.ended) this.#fail(`the call failed: ${String(error)}`);
    } finally {
      clearTimeout(timer);
    }
    if (!this.#isDone && this.#client.ended && this.#behavior !== 'disconnecting') this.#client.tally.disconnected++;
    if (this.#behavior === 'patient' && this.#isDone) this.#client.tally.times.push(performance.now() - this.#start);
  }

  get #token(): string {
    return `token of ${this.#tag}`;
  }

  /** Reads a response to its end. */
  async #read(pending: Promise<OpenResponse>): Promise<void> {
    const response = await pending;
    this.#response = response;
    if (this.#hasActed && this.#behavior === 'disconnecting') response.destroy();
    response.text.then(
      (text) => {
        if (text !== '' && response.headers['content-type'] === 'application/json') this.#onMessage(text);
        if (this.#isDone || this.#behavior === 'canceling' || this.#client.ended) return this.#finish();
        // The gateway may close the stream for polling (2025-11-25).
        if (this.#lastEventId !== undefined) return this.#resume(response, this.#lastEventId);
        return this.#fail(`the response ended without a result (${response.status})`);
      },
      () => this.#onClose(),
    );
  }

  /** The connection was closed, which only the client itself or the end of its session may cause. */
  #onClose(): void {
    if (this.#client.ended || this.#behavior === 'disconnecting') return this.#finish();
    if (this.#isDone) return;
    if (this.#behavior === 'resuming' && this.#hasActed) return;
    this.#fail('the connection was closed');
  }

  #onEvent({ id, data }: ReadEvent): void {
    this.#lastEventId = id ?? this.#lastEventId;
    if (data !== '') this.#onMessage(data);
  }

  #onMessage(data: string): void {
    const message = parseObject(data);
    const params = parseObject(message.params);
    const { tally } = this.#client;
    this.#record(String(message.method ?? 'response'));
    switch (message.method) {
      case undefined:
        return this.#onResponseMessage(message);
      case 'notifications/progress':
        tally.notifications++;
        if (params.progressToken !== this.#token || params.message !== this.#tag) this.#failForeign(data);
        return this.#act();
      case 'notifications/message':
        tally.notifications++;
        if (parseObject(params.data).tag !== this.#tag) this.#failForeign(data);
        return this.#act();
      case 'notifications/cancelled':
        // Cancels a server request, for example because the upstream has lost the session.
        if (this.#client.isFirstDelivery(JSON.stringify(params.requestId))) this.#failForeign(data);
        return;
      default:
        return this.#onServerRequest(message, params, data);
    }
  }

  #onServerRequest({ id, method }: Record<string, unknown>, params: Record<string, unknown>, data: string): void {
    const idText = JSON.stringify(id);
    const index = INDEXES[String(method)];
    if (index === undefined || !data.includes(`"${this.#tag}"`)) return this.#failForeign(data);
    if (!this.#client.isFirstDelivery(idText)) return this.#fail(`received a server request twice: ${data}`);
    this.#act(true);
    if (this.#behavior === 'disconnecting' || (this.#behavior === 'canceling' && Math.random() < 0.5)) return;
    const secret = `${this.#tag}/${String(method)}/${randomUUID()}`;
    this.#secrets[index] = secret;
    const result = resultOf(index, secret);
    void this.#respond(JSON.stringify({ jsonrpc: '2.0', id, result }));
    if (params.requestedSchema === undefined && index === 0) this.#failForeign(data);
  }

  async #respond(text: string): Promise<void> {
    await delay(Math.random() * 50);
    try {
      const status = await this.#client.notify(text);
      this.#record(`response status: ${status}`);
      if (status === 202) this.#client.tally.serverRequests++;
    } catch (error) {
      if (!this.#client.ended) this.#fail(`its response was not accepted: ${String(error)}`);
    }
  }

  #onResponseMessage({ id, result, error }: Record<string, unknown>): void {
    if (id !== this.#id) return this.#fail(`received the response to ${String(id)}`);
    if (this.#isDone) return this.#fail('received a second response');
    this.#isDone = true;
    const { tally } = this.#client;
    const [block] = Array.isArray(parseObject(result).content) ? Object(result).content : [];
    const received = parseObject(parseObject(block).text);
    if (received.tag === this.#tag && JSON.stringify(received.answers) === JSON.stringify(this.#secrets)) {
      tally.completed++;
    } else if (error !== undefined || parseObject(result).isError === true) {
      this.#failed(JSON.stringify(error ?? result));
    } else {
      this.#fail(`its responses were ${JSON.stringify(this.#secrets)}, the result is ${JSON.stringify(result)}`);
    }
    this.#finish();
  }

  /** An error is expected if the upstream has lost its sessions, or if the client itself ends the call. */
  #failed(text: string): void {
    if (this.#client.ended || this.#behavior === 'canceling') return;
    if (/HTTP 404|ended the event stream|no longer knows the session|Connection closed/.test(text)) {
      this.#client.tally.sessionLosses++;
      return;
    }
    this.#fail(`failed: ${text}`);
  }

  /** Applies the client's behavior once: at a random message, at the first server request at the latest. */
  #act(now = this.#behavior === 'slow'): void {
    if (this.#hasActed || (!now && Math.random() < 0.7)) return;
    this.#hasActed = true;
    const { tally } = this.#client;
    switch (this.#behavior) {
      case 'patient':
        return;
      case 'slow':
        tally.paused++;
        this.#response?.pause();
        setTimeout(() => this.#response?.resume(), PAUSE_MS);
        return;
      case 'canceling':
        tally.canceled++;
        void this.#client
          .notify(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":${this.#id}}}`)
          .catch(() => {});
        return;
      case 'disconnecting':
        tally.disconnected++;
        this.#response?.destroy();
        return;
      case 'resuming':
        if (this.#lastEventId === undefined || this.#response === undefined) this.#hasActed = false;
        else void this.#resume(this.#response, this.#lastEventId);
    }
  }

  async #resume(response: OpenResponse, lastEventId: string): Promise<void> {
    response.destroy();
    this.#record('disconnect');
    await delay(Math.random() * 300);
    if (this.#client.ended) return this.#finish();
    this.#client.tally.resumed++;
    try {
      await this.#read(this.#client.get({ 'last-event-id': lastEventId }, (event) => this.#onEvent(event)));
    } catch (error) {
      if (!this.#client.ended) this.#fail(`could not resume: ${String(error)}`);
      this.#finish();
    }
  }

  #record(event: string): void {
    this.#events.push([Math.round(performance.now() - this.#start), event]);
  }

  #onTimeout(): void {
    const state = { status: this.#response?.status, events: this.#events };
    this.#fail(`did not end within ${TIMEOUT_MS} ms: ${JSON.stringify(state)}`);
    this.#response?.destroy();
  }

  #failForeign(data: string): void {
    this.#fail(`received a message of another call: ${data.slice(0, 500)}`);
  }

  #fail(message: string): void {
    this.#client.tally.fail(`${this.#tag} (${this.#behavior}): ${message}`);
    this.#finish();
  }

  #finish(): void {
    this.#finished.resolve();
  }
}

function resultOf(index: number, secret: string): Record<string, unknown> {
  if (index === 0) return { action: 'accept', content: { answer: secret } };
  if (index === 1) return { role: 'assistant', model: 'none', content: { type: 'text', text: secret } };
  return { roots: [{ uri: 'file:///root', name: secret }] };
}
