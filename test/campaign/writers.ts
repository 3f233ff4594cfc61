import { Agent, request } from 'node:http';

/** State of a registry entry: undefined if absent; for tools the version that was last written. */
type State = string | undefined;
const PRESENT = 'present';

/** Expected state of one tool or namespace: the last acknowledged one, and that of a write in flight. */
interface ExpectedEntry {
  acknowledged: State;
  pending: { state: State } | undefined;
}

/**
 * Concurrent writers over the management API. Each has one write in flight at a time, to its own tools and namespaces. So
 * the expected contents of the registry are always known: the acknowledged states, except for the writes in flight.
 */
export class Writers {
  readonly #address: string;
  readonly #count: number;
  readonly #agent: Agent;
  readonly #tools = new Map<string, ExpectedEntry>();
  readonly #namespaces = new Map<string, ExpectedEntry>();
  #version = 0;
  #stopped = false;
  #running: Promise<unknown> = Promise.resolve();
  /** Writes with a successful response. */
  acknowledged = 0;
  /** Unexpected responses, as text. */
  readonly errors: string[] = [];

  /** `address` is `host:port` of the management listener. */
  constructor(address: string, count: number) {
    this.#address = address;
    this.#count = count;
    this.#agent = new Agent({ keepAlive: true, maxSockets: count });
  }

  /** Adds an expected tool that was registered before, and that no writer changes. */
  expect(name: string, description: string): void {
    this.#tools.set(name, { acknowledged: description, pending: undefined });
  }

  /** Runs all writers until {@link end}, or until the gateway is gone. */
  begin(): void {
    this.#stopped = false;
    this.#running = Promise.all(Array.from({ length: this.#count }, (_, writer) => this.#write(writer)));
  }

  /** Waits for the writes in flight, which fail if the gateway was killed. */
  async end(): Promise<void> {
    this.#stopped = true;
    await this.#running;
  }

  /**
   * Compares the registry with the expected states. Returns how many writes without a response there are and how many of
   * them were persisted, and a line for each deviation from an acknowledged state. The found states are expected from then
   * on.
   */
  async compare(): Promise<{ unanswered: number; persisted: number; failures: string[] }> {
    const result = { unanswered: 0, persisted: 0, failures: [] as string[] };
    const check = (kind: string, expected: Map<string, ExpectedEntry>, found: ReadonlyMap<string, string>): void => {
      for (const [name, item] of expected) {
        const state = found.get(name);
        if (item.pending) {
          result.unanswered++;
          if (state === item.pending.state) result.persisted++;
        }
        if (state !== item.acknowledged && !(item.pending && state === item.pending.state)) {
          result.failures.push(
            `${kind} ${name}: ${formatState(item.acknowledged)} was acknowledged, found ${formatState(state)}`,
          );
        }
        expected.set(name, { acknowledged: state, pending: undefined });
      }
      for (const name of found.keys()) {
        if (name !== 'default' && !expected.has(name)) result.failures.push(`${kind} ${name}: never written`);
      }
    };
    check('tool', this.#tools, await this.#list('/api/v1/tools', 'description'));
    check('namespace', this.#namespaces, await this.#list('/api/v1/namespaces', undefined));
    return result;
  }

  close(): void {
    this.#agent.destroy();
  }

  async #write(writer: number): Promise<void> {
    // A killed gateway ends the writer; its last write stays pending.
    while (!this.#stopped && (await this.#writeOne(writer))) {}
  }

  /** Makes one random write; false without a response. */
  async #writeOne(writer: number): Promise<boolean> {
    const item = Math.floor(Math.random() * 4);
    const name = `w${writer}-${item}`;
    if (item === 0) {
      const entry = entryOf(this.#namespaces, name);
      return entry.acknowledged
        ? this.#send(entry, undefined, 'DELETE', `/api/v1/namespaces/${name}`)
        : this.#send(entry, PRESENT, 'POST', '/api/v1/namespaces', { name });
    }
    const entry = entryOf(this.#tools, name);
    const version = `version ${++this.#version}`;
    const body = { name, description: version, uri: 'http://tool', toolType: 'http', input_schema: { type: 'object' } };
    if (!entry.acknowledged) return this.#send(entry, version, 'POST', '/api/v1/tools', body);
    const path = `/api/v1/tools/${name}`;
    return Math.random() < 0.5
      ? this.#send(entry, version, 'PUT', path, body)
      : this.#send(entry, undefined, 'DELETE', path);
  }

  async #send(entry: ExpectedEntry, state: State, method: string, path: string, body?: unknown): Promise<boolean> {
    entry.pending = { state };
    const response = await this.#request(method, path, body).catch(() => undefined);
    if (!response) return false;
    if (response.status >= 300) {
      this.errors.push(`${method} ${path}: ${response.status} ${response.text}`);
      return false;
    }
    entry.acknowledged = state;
    entry.pending = undefined;
    this.acknowledged++;
    return true;
  }

  /** Returns the entries of a list by name, with the value of the version member. */
  async #list(path: string, member: string | undefined): Promise<Map<string, string>> {
    const { text } = await this.#request('GET', path);
    const body: unknown = JSON.parse(text);
    if (!isObject(body) || !Array.isArray(body.data)) throw new Error(`GET ${path}: ${text}`);
    const items: unknown[] = body.data;
    return new Map(
      items.filter(isObject).map((item) => [String(item.name), member === undefined ? PRESENT : String(item[member])]),
    );
  }

  #request(method: string, path: string, body?: unknown): Promise<{ status: number; text: string }> {
    return new Promise((resolve, reject) => {
      const outgoing = request(`http://${this.#address}${path}`, { method, agent: this.#agent }, (response) => {
        let text = '';
        response.setEncoding('utf8');
        response.on('data', (chunk: string) => {
          text += chunk;
        });
        response.on('end', () => resolve({ status: response.statusCode ?? 0, text }));
        response.on('error', reject);
      });
      outgoing.on('error', reject);
      outgoing.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }
}

function entryOf(entries: Map<string, ExpectedEntry>, name: string): ExpectedEntry {
  const item = entries.get(name) ?? { acknowledged: undefined, pending: undefined };
  entries.set(name, item);
  return item;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

function formatState(state: State): string {
  return state ?? 'nothing';
}
