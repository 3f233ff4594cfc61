import { Agent, request } from 'node:http';

/** Something that is in the registry or not; tools carry the version that was last written to them. */
type State = string | undefined;
const PRESENT = 'present';

/** What is known of one tool or namespace: the state last acknowledged, and the one asked for without an answer yet. */
interface Known {
  acknowledged: State;
  asked: { state: State } | undefined;
}

/**
 * Writers over the management API. Each writes one thing at a time, to tools and namespaces that no other touches, and
 * so knows at every moment what the registry must hold: what was acknowledged, except for the one write under way.
 */
export class Writers {
  readonly #address: string;
  readonly #count: number;
  readonly #agent: Agent;
  readonly #tools = new Map<string, Known>();
  readonly #namespaces = new Map<string, Known>();
  #version = 0;
  #stopped = false;
  #running: Promise<unknown> = Promise.resolve();
  /** Writes that were answered with success. */
  acknowledged = 0;
  /** Answers that no write should get, as text. */
  readonly surprises: string[] = [];

  /** `address` is `host:port` of the management listener. */
  constructor(address: string, count: number) {
    this.#address = address;
    this.#count = count;
    this.#agent = new Agent({ keepAlive: true, maxSockets: count });
  }

  /** Makes known a tool that was registered before, and that no writer touches. */
  expect(name: string, description: string): void {
    this.#tools.set(name, { acknowledged: description, asked: undefined });
  }

  /** Lets all writers write until {@link end}, or until the other side is gone. */
  begin(): void {
    this.#stopped = false;
    this.#running = Promise.all(Array.from({ length: this.#count }, (_, writer) => this.#write(writer)));
  }

  /** Waits for the writes under way, which fail when the other side was killed. */
  async end(): Promise<void> {
    this.#stopped = true;
    await this.#running;
  }

  /**
   * Compares what the registry holds with what is known. Returns how many writes without an answer had been made, and
   * a line for each thing that is not as it was acknowledged. From then on what was found counts as known.
   */
  async compare(): Promise<{ unanswered: number; kept: number; wrong: string[] }> {
    const result = { unanswered: 0, kept: 0, wrong: [] as string[] };
    const check = (kind: string, known: Map<string, Known>, found: ReadonlyMap<string, string>): void => {
      for (const [name, item] of known) {
        const state = found.get(name);
        if (item.asked) {
          result.unanswered++;
          if (state === item.asked.state) result.kept++;
        }
        if (state !== item.acknowledged && !(item.asked && state === item.asked.state)) {
          result.wrong.push(`${kind} ${name}: ${show(item.acknowledged)} was acknowledged, found ${show(state)}`);
        }
        known.set(name, { acknowledged: state, asked: undefined });
      }
      for (const name of found.keys()) {
        if (name !== 'default' && !known.has(name)) result.wrong.push(`${kind} ${name}: nobody wrote it`);
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
    // The other side's death ends the writer: what it was writing stays asked for.
    while (!this.#stopped && (await this.#writeOne(writer))) {}
  }

  /** One random write; false when no answer came. */
  async #writeOne(writer: number): Promise<boolean> {
    const item = Math.floor(Math.random() * 4);
    const name = `w${writer}-${item}`;
    if (item === 0) {
      const known = knownOf(this.#namespaces, name);
      return known.acknowledged
        ? this.#send(known, undefined, 'DELETE', `/api/v1/namespaces/${name}`)
        : this.#send(known, PRESENT, 'POST', '/api/v1/namespaces', { name });
    }
    const known = knownOf(this.#tools, name);
    const version = `version ${++this.#version}`;
    const body = { name, description: version, uri: 'http://tool', toolType: 'http', input_schema: { type: 'object' } };
    if (!known.acknowledged) return this.#send(known, version, 'POST', '/api/v1/tools', body);
    const path = `/api/v1/tools/${name}`;
    return Math.random() < 0.5
      ? this.#send(known, version, 'PUT', path, body)
      : this.#send(known, undefined, 'DELETE', path);
  }

  async #send(known: Known, state: State, method: string, path: string, body?: unknown): Promise<boolean> {
    known.asked = { state };
    const answer = await this.#request(method, path, body).catch(() => undefined);
    if (!answer) return false;
    if (answer.status >= 300) {
      this.surprises.push(`${method} ${path}: ${answer.status} ${answer.text}`);
      return false;
    }
    known.acknowledged = state;
    known.asked = undefined;
    this.acknowledged++;
    return true;
  }

  /** What a list holds: by name the member that tells versions apart. */
  async #list(path: string, member: string | undefined): Promise<Map<string, string>> {
    const { text } = await this.#request('GET', path);
    const answer: unknown = JSON.parse(text);
    if (!isObject(answer) || !Array.isArray(answer.data)) throw new Error(`GET ${path}: ${text}`);
    const items: unknown[] = answer.data;
    return new Map(
      items.filter(isObject).map((item) => [String(item.name), member === undefined ? PRESENT : String(item[member])]),
    );
  }

  #request(method: string, path: string, body?: unknown): Promise<{ status: number; text: string }> {
    return new Promise((resolve, reject) => {
      const sent = request(`http://${this.#address}${path}`, { method, agent: this.#agent }, (response) => {
        let text = '';
        response.setEncoding('utf8');
        response.on('data', (chunk: string) => {
          text += chunk;
        });
        response.on('end', () => resolve({ status: response.statusCode ?? 0, text }));
        response.on('error', reject);
      });
      sent.on('error', reject);
      sent.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }
}

function knownOf(known: Map<string, Known>, name: string): Known {
  const item = known.get(name) ?? { acknowledged: undefined, asked: undefined };
  known.set(name, item);
  return item;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

function show(state: State): string {
  return state ?? 'nothing';
}
