import type { Agent } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { LEGACY } from '../fixtures/raw-client.ts';
import { parseObject } from '../fixtures/raw-upstream/message.ts';
import { ask, type ReadEvent, type Reading } from './event-reader.ts';
import { Interview, type Manner } from './interview.ts';
import type { Witness } from './witness.ts';

const CAPABILITIES = '{"elicitation":{"form":{}},"sampling":{},"roots":{"listChanged":true}}';
/** What may come on a notification stream: nothing that a call has caused. */
const NOTICES = new Set([
  'notifications/tools/list_changed',
  'notifications/resources/list_changed',
  'notifications/prompts/list_changed',
]);

/**
 * A legacy client with a session and a notification stream, on bare `node:http`, so that hundreds of them fit beside the
 * gateway. It can be asked, and tells the witness of everything that another client should have got.
 */
export class SessionClient {
  readonly name: string;
  readonly witness: Witness;
  readonly #url: string;
  readonly #agent: Agent;
  #headers: Record<string, string> = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
  };
  #stream: Reading | undefined = undefined;
  #lastEventId: string | undefined = undefined;
  #lastId = 0;
  #ended = false;
  /** Ids of questions that this client was asked, to find out one that comes twice. */
  readonly #asked = new Set<string>();
  /** Takes what comes on the notification stream; by default what no call has caused is the only thing allowed. */
  onNotice: (data: string) => void = (data) => this.#noticed(data);

  constructor(url: string, agent: Agent, name: string, witness: Witness) {
    this.#url = url;
    this.#agent = agent;
    this.name = name;
    this.witness = witness;
  }

  /** True from the moment when the client ends its session. */
  get ended(): boolean {
    return this.#ended;
  }

  /** Opens the session, and its notification stream, which is returned. */
  async open(): Promise<Reading> {
    const params = `{"protocolVersion":"${LEGACY}","capabilities":${CAPABILITIES},"clientInfo":{"name":"${this.name}","version":"1"}}`;
    const opened = await this.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":${params}}`);
    const text = await opened.text;
    const session = opened.headers['mcp-session-id'];
    if (typeof session !== 'string') throw new Error(`initialize: ${opened.status} ${text}`);
    this.#headers = { ...this.#headers, 'mcp-protocol-version': LEGACY, 'mcp-session-id': session };
    await this.tell('{"jsonrpc":"2.0","method":"notifications/initialized"}');
    this.witness.opened++;
    return await this.listen();
  }

  /** Opens the notification stream, or takes it up again where it was cut. */
  async listen(): Promise<Reading> {
    const again: Record<string, string> = {};
    if (this.#lastEventId !== undefined) again['last-event-id'] = this.#lastEventId;
    this.#stream = await this.get(again, ({ id, data }) => {
      this.#lastEventId = id ?? this.#lastEventId;
      if (data !== '') this.onNotice(data);
    });
    if (this.#stream.status !== 200 && !this.#ended) {
      this.witness.reject(`${this.name}: notification stream refused: ${this.#stream.status}`);
    }
    return this.#stream;
  }

  /** Cuts the notification stream and takes it up again. */
  async listenAgain(): Promise<void> {
    this.#stream?.cut();
    await delay(Math.random() * 200);
    if (this.#ended) return;
    await this.listen();
    this.witness.resumed++;
  }

  /** One call of the tool, in this manner; resolves when the client has no more to do with it. */
  interview(tool: string, manner: Manner): Promise<void> {
    return new Interview(this, tool, ++this.#lastId, manner).run();
  }

  /** Ends the session, whatever is under way. */
  async end(): Promise<void> {
    this.#ended = true;
    const { status, text } = await this.#ask('DELETE', {});
    await text;
    if (status !== 204) this.witness.reject(`${this.name}: DELETE was answered ${status}`);
    this.#stream?.cut();
    this.witness.ended++;
  }

  /** Goes away without a word; only {@link end} ends the session after that. */
  vanish(): void {
    this.#stream?.cut();
  }

  /** True the first time that this question comes. */
  firstAsked(idText: string): boolean {
    const before = this.#asked.size;
    return this.#asked.add(idText).size > before;
  }

  /** Posts a message. */
  post(body: string, onEvent?: (event: ReadEvent) => void): Promise<Reading> {
    return ask({ url: this.#url, agent: this.#agent, method: 'POST', headers: this.#headers, body }, onEvent);
  }

  /** Posts a message that has no answer; the status. */
  async tell(body: string): Promise<number> {
    const { status, text } = await this.post(body);
    await text;
    return status;
  }

  /** Asks for a stream, with further headers. */
  get(headers: Readonly<Record<string, string>>, onEvent: (event: ReadEvent) => void): Promise<Reading> {
    return this.#ask('GET', { ...headers, accept: 'text/event-stream' }, onEvent);
  }

  #ask(method: 'GET' | 'DELETE', more: Readonly<Record<string, string>>, onEvent?: (event: ReadEvent) => void) {
    const { 'content-type': _type, ...headers } = this.#headers;
    return ask({ url: this.#url, agent: this.#agent, method, headers: { ...headers, ...more } }, onEvent);
  }

  #noticed(data: string): void {
    const { method } = parseObject(data);
    if (!NOTICES.has(String(method))) this.witness.reject(`${this.name}: on its notification stream: ${data}`);
  }
}
