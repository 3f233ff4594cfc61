import type { Agent } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { LEGACY } from '../fixtures/raw-client.ts';
import { parseObject } from '../fixtures/raw-upstream/message.ts';
import { type OpenResponse, type ReadEvent, send } from './event-reader.ts';
import { type Behavior, Interview } from './interview.ts';
import type { SessionTally } from './tally.ts';

const CAPABILITIES = '{"elicitation":{"form":{}},"sampling":{},"roots":{"listChanged":true}}';
/** Notifications allowed on a notification stream: none of a call. */
const LIST_CHANGES = new Set([
  'notifications/tools/list_changed',
  'notifications/resources/list_changed',
  'notifications/prompts/list_changed',
]);

/**
 * A legacy client with a session and a notification stream, on plain `node:http`, so that hundreds of them fit beside the
 * gateway. It supports server requests, and records every message of another client as a failure.
 */
export class SessionClient {
  readonly name: string;
  readonly tally: SessionTally;
  readonly #url: string;
  readonly #agent: Agent;
  #headers: Record<string, string> = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
  };
  #stream: OpenResponse | undefined = undefined;
  #lastEventId: string | undefined = undefined;
  #lastId = 0;
  #ended = false;
  /** Ids of received server requests, to detect duplicates. */
  readonly #received = new Set<string>();
  /** Handles messages of the notification stream; by default only list changes are allowed. */
  onNotification: (data: string) => void = (data) => this.#checkNotification(data);

  constructor(url: string, agent: Agent, name: string, tally: SessionTally) {
    this.#url = url;
    this.#agent = agent;
    this.name = name;
    this.tally = tally;
  }

  /** True from the moment that the client ends its session. */
  get ended(): boolean {
    return this.#ended;
  }

  /** Opens the session and its notification stream, and returns the stream. */
  async open(): Promise<OpenResponse> {
    const params = `{"protocolVersion":"${LEGACY}","capabilities":${CAPABILITIES},"clientInfo":{"name":"${this.name}","version":"1"}}`;
    const opened = await this.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":${params}}`);
    const text = await opened.text;
    const session = opened.headers['mcp-session-id'];
    if (typeof session !== 'string') throw new Error(`initialize: ${opened.status} ${text}`);
    this.#headers = { ...this.#headers, 'mcp-protocol-version': LEGACY, 'mcp-session-id': session };
    await this.notify('{"jsonrpc":"2.0","method":"notifications/initialized"}');
    this.tally.opened++;
    return await this.listen();
  }

  /** Opens the notification stream, or resumes it after a disconnect. */
  async listen(): Promise<OpenResponse> {
    const resumption: Record<string, string> = {};
    if (this.#lastEventId !== undefined) resumption['last-event-id'] = this.#lastEventId;
    this.#stream = await this.get(resumption, ({ id, data }) => {
      this.#lastEventId = id ?? this.#lastEventId;
      if (data !== '') this.onNotification(data);
    });
    if (this.#stream.status !== 200 && !this.#ended) {
      this.tally.fail(`${this.name}: notification stream rejected: ${this.#stream.status}`);
    }
    return this.#stream;
  }

  /** Disconnects and resumes the notification stream. */
  async reconnectStream(): Promise<void> {
    this.#stream?.destroy();
    await delay(Math.random() * 200);
    if (this.#ended) return;
    await this.listen();
    this.tally.resumed++;
  }

  /** Calls the tool with this behavior; resolves when the client is done with the call. */
  interview(tool: string, behavior: Behavior): Promise<void> {
    return new Interview(this, tool, ++this.#lastId, behavior).run();
  }

  /** Ends the session, whatever is in flight. */
  async end(): Promise<void> {
    this.#ended = true;
    const { status, text } = await this.#send('DELETE', {});
    await text;
    if (status !== 204) this.tally.fail(`${this.name}: status ${status} for DELETE`);
    this.#stream?.destroy();
    this.tally.ended++;
  }

  /** Disconnects without ending the session; {@link end} can still end it. */
  disconnect(): void {
    this.#stream?.destroy();
  }

  /** True for the first delivery of a server request. */
  isFirstDelivery(idText: string): boolean {
    const before = this.#received.size;
    return this.#received.add(idText).size > before;
  }

  /** Posts a message. */
  post(body: string, onEvent?: (event: ReadEvent) => void): Promise<OpenResponse> {
    return send({ url: this.#url, agent: this.#agent, method: 'POST', headers: this.#headers, body }, onEvent);
  }

  /** Posts a message without a response and returns the status. */
  async notify(body: string): Promise<number> {
    const { status, text } = await this.post(body);
    await text;
    return status;
  }

  /** Opens an event stream, with further headers. */
  get(headers: Readonly<Record<string, string>>, onEvent: (event: ReadEvent) => void): Promise<OpenResponse> {
    return this.#send('GET', { ...headers, accept: 'text/event-stream' }, onEvent);
  }

  #send(method: 'GET' | 'DELETE', more: Readonly<Record<string, string>>, onEvent?: (event: ReadEvent) => void) {
    const { 'content-type': _type, ...headers } = this.#headers;
    return send({ url: this.#url, agent: this.#agent, method, headers: { ...headers, ...more } }, onEvent);
  }

  #checkNotification(data: string): void {
    const { method } = parseObject(data);
    if (!LIST_CHANGES.has(String(method)))
      this.tally.fail(`${this.name}: unexpected message on the notification stream: ${data}`);
  }
}
