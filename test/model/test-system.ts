import { once } from 'node:events';
import { Agent, request as httpRequest } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { isJsonObject, type JsonObject, type JsonValue, parseLossless } from '@sluice/protocol/json/parse';
import { freePort } from '../fixtures/free-port.ts';
import { type Gateway, startGateway } from '../fixtures/gateway.ts';
import { modernClient, reply } from '../fixtures/raw-client.ts';
import { type ApiRequest, type ApiResponse, pathOf } from './request.ts';
import { Upstreams } from './upstreams.ts';
import { MCP_LISTS, REST_LISTS } from './view.ts';

/** Time limit of a forward's background discovery; retries are at most 1.5 s apart. */
const SETTLE_MS = 20_000;
const POLL_MS = 5;

/** The real service, as a process with the file store, and real upstreams. */
export class TestSystem {
  readonly #gateway: Gateway;
  #upstreams: Upstreams;
  #agent = new Agent({ keepAlive: true });

  static async start(): Promise<TestSystem> {
    const [management, mcp] = await Promise.all([freePort(), freePort()]);
    const gateway = await startGateway({
      management: `127.0.0.1:${management}`,
      mcp: `127.0.0.1:${mcp}`,
      env: { SERVICE_FORWARD_HEALTHCHECK_INTERVAL: '0' },
    });
    return new TestSystem(gateway, await Upstreams.start());
  }

  private constructor(gateway: Gateway, upstreams: Upstreams) {
    this.#gateway = gateway;
    this.#upstreams = upstreams;
  }

  get upstreams(): Upstreams {
    return this.#upstreams;
  }

  /** Empties the registry through the API, and resets the upstreams. */
  async reset(): Promise<void> {
    // A run may have ended during a restart.
    if ((await this.send(REST_LISTS.namespaces ?? raise('no namespaces')).catch(() => undefined)) === undefined) {
      await this.restart('SIGKILL');
    }
    await this.#upstreams.close();
    this.#upstreams = await Upstreams.start();
    for (const collection of ['forwards', 'tools', 'resources', 'prompts', 'services', 'namespaces'] as const) {
      for (const { name, namespace, location } of await this.list({ method: 'GET', collection })) {
        if (typeof name !== 'string' || (collection === 'namespaces' && name === 'default')) continue;
        const query: Record<string, string> = { cascade: 'true' };
        if (typeof namespace === 'string') query.namespace = namespace;
        if (typeof location === 'string') query.uri = location;
        await this.send({ method: 'DELETE', collection, name, query });
      }
    }
    await this.send({ method: 'PUT', collection: 'namespaces', name: 'default', body: '{}' });
  }

  /**
   * Sends one call. Rejects when the connection closes before the response is complete, and for a response that is not
   * the management API's.
   */
  async send(request: ApiRequest): Promise<ApiResponse> {
    const [host, port] = this.#gateway.management().split(':');
    // Node's own client sends the path unchanged: a URL parser would resolve the segment `..`.
    const outgoing = httpRequest({ agent: this.#agent, host, port, method: request.method, path: pathOf(request) });
    outgoing.end(request.body);
    const [incoming] = await once(outgoing, 'response');
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk);
    const { location } = incoming.headers;
    return {
      status: incoming.statusCode,
      ...(location !== undefined && { location }),
      ...inEnvelope(Buffer.concat(chunks).toString()),
    };
  }

  /** The objects that a call lists. */
  async list(request: ApiRequest): Promise<JsonObject[]> {
    const { data } = await this.send(request);
    return Array.isArray(data) ? data.filter(isJsonObject) : raise(`${pathOf(request)} did not return a list`);
  }

  /** The whole visible state in REST. */
  async view(): Promise<Record<string, JsonValue>> {
    const responses = Object.entries(REST_LISTS).map(async ([what, request]) => [
      what,
      (await this.send(request)).data ?? null,
    ]);
    return Object.fromEntries(await Promise.all(responses));
  }

  /** MCP lists of these namespaces. */
  async served(namespaces: readonly string[]): Promise<Record<string, JsonValue>> {
    const found = namespaces.map(async (namespace) => {
      const client = modernClient(this.#gateway.url(namespace));
      const lists = Object.entries(MCP_LISTS).map(async ([method, member]) => {
        const message = parseLossless(reply(await client.call(method)));
        const result = isJsonObject(message) ? message.result : undefined;
        return [method, isJsonObject(result) ? (result[member] ?? null) : message];
      });
      return [namespace, Object.fromEntries(await Promise.all(lists))];
    });
    return Object.fromEntries(await Promise.all(found));
  }

  /** Stops the process and starts it again on the same folder; then waits like {@link settled}. */
  async restart(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    await this.end(signal);
    await this.#gateway.restart();
    await this.settled();
  }

  /** Stops the process. Rejects unless it exits with code 0 at SIGTERM. */
  async end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    if (signal === 'SIGKILL') await this.#gateway.kill();
    else {
      const code = await this.#gateway.stop();
      if (code !== 0) raise(`SIGTERM: the process exited with code ${code}`);
    }
    this.#agent.destroy();
    this.#agent = new Agent({ keepAlive: true });
  }

  /**
   * Waits until every forward was contacted since the start, and those with a reachable upstream are available, unless
   * they were considered available all the time.
   */
  async settled(): Promise<void> {
    const modes = new Map(this.#upstreams.states.map(({ address, mode }) => [address, mode]));
    const deadline = performance.now() + SETTLE_MS;
    for (;;) {
      const forwards = await this.list({ method: 'GET', collection: 'forwards' });
      const waiting = forwards.filter(({ address, available, statusMessage }) =>
        modes.get(String(address)) === 'up' ? available !== true : String(statusMessage) === 'discovery pending',
      );
      if (waiting.length === 0) return;
      if (performance.now() > deadline) raise(`not settled in ${SETTLE_MS} ms: ${JSON.stringify(waiting)}`);
      await delay(POLL_MS);
    }
  }

  /** The last lines of the service's log. */
  get log(): string {
    return this.#gateway.logs
      .slice(-10)
      .map((line) => JSON.stringify(line))
      .join('\n');
  }

  async close(): Promise<void> {
    this.#agent.destroy();
    await this.#upstreams.close();
    await this.#gateway.close();
  }
}

/** Contents of the envelope. */
function inEnvelope(text: string): Pick<ApiResponse, 'data' | 'code' | 'message' | 'details'> {
  const envelope = parseLossless(text);
  if (!isJsonObject(envelope)) return raise(`no envelope: ${text}`);
  const { data, error, warnings: _warnings, ...others } = envelope;
  if (data === undefined || error === undefined || Object.keys(others).length > 0) raise(`no envelope: ${text}`);
  if (error === null) return { data };
  if (data !== null || !isJsonObject(error)) return raise(`no envelope: ${text}`);
  const { code, message, details } = error;
  return { code: String(code), message: String(message), ...(details !== undefined && { details }) };
}

function raise(message: string): never {
  throw new Error(message);
}
