import { randomUUID } from 'node:crypto';
import type { Agent } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { MODERN } from '../fixtures/raw-client.ts';
import { parseObject } from '../fixtures/raw-upstream/message.ts';
import { type OpenResponse, send } from './event-reader.ts';

/** Behavior of a client whose call is suspended. */
export type Behavior =
  /** Responds to all server requests and waits for the result. */
  | 'responding'
  /** The same, in several retries. */
  | 'partial'
  /** The same, with two identical concurrent retries. */
  | 'duplicate'
  /** The same, after other clients have tried to take over the call. */
  | 'attacked'
  /** Retries after the timeout. */
  | 'late'
  /** Disconnects during its retry. */
  | 'disconnecting';

/** What the clients of a run did and observed. */
export class SuspensionTally {
  calls = 0;
  /** Calls whose result had the responses of their own client. */
  completed = 0;
  /** Input-required results. */
  rounds = 0;
  /** Calls that timed out, and calls whose client disconnected. */
  expired = 0;
  disconnected = 0;
  /** Calls that were canceled upstream. */
  canceled = 0;
  /** Retries of other clients and with modified states that were rejected; and retries with the error `not_held`. */
  rejected = 0;
  notHeld = 0;
  /** Milliseconds from a retry to its response, of calls whose upstream continues at once. */
  readonly times: number[] = [];
  /** One line per violation; only the first 50 are stored. */
  readonly failures: string[] = [];

  fail(line: string): void {
    if (this.failures.length < 50) this.failures.push(line);
  }
}

/** A JSON-RPC response. */
interface RpcResponse {
  readonly status: number;
  readonly result: Record<string, unknown>;
  readonly error: Record<string, unknown>;
  readonly text: string;
}

/** Endpoint and user of requests. */
export interface Caller {
  readonly url: string;
  readonly user: string;
}

/** Timeout of a request, in milliseconds. */
const TIMEOUT_MS = 60_000;
/** Delay of a disconnect after the retry, and the pause of the upstream, which is longer, in milliseconds. */
const DISCONNECT_MS = { min: 200, max: 1_000 };
const PAUSE_MS = 3_000;
const CAPABILITIES = '{"elicitation":{"form":{}}}';

/** One call of the tool `question` by a modern client, from its first request to its end. */
export class SuspendedClient {
  readonly #agent: Agent;
  readonly #tally: SuspensionTally;
  readonly #caller: Caller;
  readonly #behavior: Behavior;
  readonly #tag: string;
  readonly #arguments: string;
  readonly #secrets: Record<string, string> = {};
  #id = 0;
  #inputRequired: RpcResponse | undefined = undefined;

  constructor(agent: Agent, tally: SuspensionTally, caller: Caller, behavior: Behavior) {
    this.#agent = agent;
    this.#tally = tally;
    this.#caller = caller;
    this.#behavior = behavior;
    this.#tag = randomUUID();
    const rounds = 1 + Math.floor(Math.random() * 3);
    const questions = 1 + Math.floor(Math.random() * 2);
    const pauseMs = behavior === 'disconnecting' ? PAUSE_MS : 0;
    this.#arguments = JSON.stringify({ tag: this.#tag, rounds, questions, pauseMs });
  }

  /** Makes the call; resolves when it is suspended. */
  async begin(): Promise<void> {
    this.#tally.calls++;
    const response = await this.#send(this.#caller, this.#params());
    this.#onResponse(response);
  }

  /** Applies the behavior to the call, to its end. `timeoutMs` is the timeout of suspended calls. */
  async finish(otherClients: readonly Caller[], timeoutMs: number): Promise<void> {
    if (!this.#inputRequired) return;
    switch (this.#behavior) {
      case 'late':
        return this.#retryAfterTimeout(timeoutMs);
      case 'disconnecting':
        return this.#disconnect();
      case 'attacked':
        for (const otherClient of otherClients) await this.#attack(otherClient);
        await this.#modify();
        break;
      case 'duplicate':
        await this.#duplicate();
        break;
      case 'partial':
        this.#onResponse(await this.#retry(this.#inputResponses().slice(0, 1)));
        break;
      case 'responding':
        break;
      default:
        this.#behavior satisfies never;
    }
    while (this.#inputRequired) {
      await delay(Math.random() * 200);
      const start = performance.now();
      const response = await this.#retry(this.#inputResponses());
      this.#tally.times.push(performance.now() - start);
      this.#onResponse(response);
    }
  }

  /** Retries and expects the error `not_held`; returns the latency in milliseconds. */
  async findNotHeld(): Promise<number> {
    const start = performance.now();
    const response = await this.#retry(this.#inputResponses());
    if (isNotHeld(response)) this.#tally.notHeld++;
    else this.#fail(`expected not_held, got ${response.text}`);
    return performance.now() - start;
  }

  /** Retries as another client. */
  async #attack(otherClient: Caller): Promise<void> {
    this.#expectRejection(await this.#send(otherClient, this.#params(this.#inputResponses())));
  }

  /** Retries with a modified state, and with other arguments. */
  async #modify(): Promise<void> {
    const state = String(this.#inputRequired?.result.requestState);
    const at = Math.floor(Math.random() * state.length);
    const modified = `${state.slice(0, at)}${state[at] === 'A' ? 'B' : 'A'}${state.slice(at + 1)}`;
    const params = this.#params(this.#inputResponses());
    this.#expectRejection(await this.#send(this.#caller, params.replace(state, modified)));
    this.#expectRejection(await this.#send(this.#caller, params.replace('"rounds":', '"more":1,"rounds":')));
  }

  async #duplicate(): Promise<void> {
    const responses = this.#inputResponses();
    const both = await Promise.all([this.#retry(responses), this.#retry(responses)]);
    const [accepted, ...more] = both.filter((response) => !isNotHeld(response));
    if (!accepted || more.length > 0) return this.#fail(`two concurrent retries got ${both.map(({ text }) => text)}`);
    this.#tally.notHeld++;
    this.#onResponse(accepted);
  }

  async #retryAfterTimeout(timeoutMs: number): Promise<void> {
    await delay(timeoutMs + Math.random() * 1_000);
    await this.findNotHeld();
    this.#tally.expired++;
  }

  async #disconnect(): Promise<void> {
    this.#tally.disconnected++;
    const controller = new AbortController();
    const pending = this.#post(this.#caller, this.#params(this.#inputResponses()), undefined, controller.signal);
    pending.catch(() => {});
    await delay(DISCONNECT_MS.min + Math.random() * (DISCONNECT_MS.max - DISCONNECT_MS.min));
    controller.abort();
  }

  /** Handles the response to the latest request: further server requests, or the end of the call. */
  #onResponse(response: RpcResponse): void {
    const { result, text } = response;
    this.#inputRequired = undefined;
    if (result.resultType === 'input_required') {
      this.#tally.rounds++;
      const foreign = this.#labels(response).filter(([, label]) => !label.startsWith(`${this.#tag} `));
      if (foreign.length > 0) return this.#fail(`received a server request of another call: ${text}`);
      this.#inputRequired = response;
      return;
    }
    const [block] = Array.isArray(result.content) ? result.content : [];
    const received = parseObject(parseObject(block).text);
    const isUnchanged =
      JSON.stringify(Object.entries(received).sort()) === JSON.stringify(Object.entries(this.#secrets).sort());
    if (result.resultType === 'complete' && isUnchanged) this.#tally.completed++;
    else this.#fail(`got ${text} after the responses ${JSON.stringify(this.#secrets)}`);
  }

  #expectRejection({ error, text }: RpcResponse): void {
    if (error.code === -32602) this.#tally.rejected++;
    else this.#fail(`a foreign retry got ${text}`);
  }

  /** Keys and messages of the server requests. */
  #labels({ result }: RpcResponse): [string, string][] {
    const requests = Object.entries(parseObject(result.inputRequests));
    return requests.map(([key, request]) => [key, String(parseObject(parseObject(request).params).message)]);
  }

  /** Responses to all server requests, as members of `inputResponses`. */
  #inputResponses(): string[] {
    if (!this.#inputRequired) return [];
    return this.#labels(this.#inputRequired).map(([key, label]) => {
      this.#secrets[label] ??= `${this.#tag} ${randomUUID()}`;
      const response = { action: 'accept', content: { answer: this.#secrets[label] } };
      return `${JSON.stringify(key)}:${JSON.stringify(response)}`;
    });
  }

  #retry(responses: readonly string[]): Promise<RpcResponse> {
    return this.#send(this.#caller, this.#params(responses));
  }

  /** The params of a request, or of a retry if there are responses. */
  #params(responses?: readonly string[]): string {
    const members = [`"name":"question","arguments":${this.#arguments}`];
    if (responses) {
      members.push(`"inputResponses":{${responses.join(',')}}`);
      members.push(`"requestState":${JSON.stringify(this.#inputRequired?.result.requestState)}`);
    }
    return members.join(',');
  }

  async #send(caller: Caller, params: string): Promise<RpcResponse> {
    const body = Promise.withResolvers<string>();
    const timer = setTimeout(() => body.reject(new Error(`no response in ${TIMEOUT_MS} ms`)), TIMEOUT_MS);
    let last = '';
    try {
      const http = await Promise.race([this.#post(caller, params, (data) => (last = data)), body.promise]);
      if (typeof http === 'string') throw new Error('unreachable');
      http.text.then((text) => body.resolve(text === '' ? last : text), body.reject);
      const text = await body.promise;
      const { result, error } = parseObject(text);
      return { status: http.status, result: parseObject(result), error: parseObject(error), text };
    } finally {
      clearTimeout(timer);
    }
  }

  #post(
    { url, user }: Caller,
    params: string,
    onData: (data: string) => void = () => {},
    signal?: AbortSignal,
  ): Promise<OpenResponse> {
    const envelope =
      `"io.modelcontextprotocol/protocolVersion":"${MODERN}",` +
      `"io.modelcontextprotocol/clientCapabilities":${CAPABILITIES},"progressToken":"${this.#tag}"`;
    const body = `{"jsonrpc":"2.0","id":${++this.#id},"method":"tools/call","params":{${params},"_meta":{${envelope}}}}`;
    const headers = {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': MODERN,
      'mcp-method': 'tools/call',
      'mcp-name': 'question',
      'x-forwarded-user': user,
    };
    const options = { url, agent: this.#agent, method: 'POST', headers, body, ...(signal && { signal }) } as const;
    return send(options, ({ data }) => data && onData(data));
  }

  #fail(message: string): void {
    this.#inputRequired = undefined;
    this.#tally.fail(`a call with behavior ${this.#behavior}: ${message.slice(0, 1_000)}`);
  }
}

function isNotHeld({ error }: RpcResponse): boolean {
  return error.code === -32603 && parseObject(error.data).kind === 'not_held';
}
