import { rpc } from '../../packages/server/testing/listener.ts';
import { post, reply, send } from '../fixtures/raw-client.ts';
import { Register, type WriteOutcome } from './replicas-register.ts';

/** What clients did and found. */
export class ReplicaTally {
  /** Writes by outcome. */
  readonly writes: Record<WriteOutcome, number> = { acknowledged: 0, refused: 0, unknown: 0 };
  /** Reads that must be linearizable, and those that said that they may be out of date. */
  reads = 0;
  staleReads = 0;
  /** Requests that did not reach a replica, or whose response was lost. */
  lost = 0;
  /** Changes of `enabled` that were acknowledged, and those of them that a replica that runs has not confirmed. */
  switches = 0;
  unconfirmed = 0;
  /** Calls with a result, and calls that were rejected. */
  calls = 0;
  rejected = 0;
  /** Calls that began while their tool was disabled, and those of them for which all replicas that run had confirmed that. */
  whileDisabled = 0;
  whileConfirmed = 0;
  /** One line per violation; only the first 50 are stored. */
  readonly failures: string[] = [];
  readonly #onFailure: (line: string) => void;

  /** `onFailure` gets each of these lines at once. */
  constructor(onFailure: (line: string) => void) {
    this.#onFailure = onFailure;
  }

  fail(...lines: readonly string[]): void {
    for (const line of lines) {
      if (this.failures.length >= 50) return;
      this.failures.push(line);
      this.#onFailure(line);
    }
  }
}

/** A management response; undefined if none arrived. */
interface Reply {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
}

/** Sends a management request; undefined if it is not known whether it has arrived at a replica. */
async function manage(base: string, method: string, path: string, body?: object): Promise<Reply | undefined> {
  try {
    const { status, text } = await send(`${base}/api/v1${path}`, method, {}, body && JSON.stringify(body));
    return status === 502 ? undefined : { status, body: Object(text === '' ? {} : JSON.parse(text)) };
  } catch {
    return undefined;
  }
}

/** The outcome of a change; undefined for a response that it must not have. */
function outcomeOf(reply: Reply | undefined): WriteOutcome | undefined {
  if (!reply) return 'unknown';
  if (reply.status < 300) return 'acknowledged';
  if (reply.status !== 503) return undefined;
  return Object(Object(reply.body.error).details).outcome === 'unknown' ? 'unknown' : 'refused';
}

type Kind = 'tools' | 'namespaces';

/** Namespaces and tools that clients create, change, delete and read, each key written by one client. */
export class RegistryClients {
  readonly #url: string;
  readonly #tally: ReplicaTally;
  readonly #registers: Record<Kind, Map<string, Register>> = { tools: new Map(), namespaces: new Map() };
  #created = 0;
  #version = 0;

  /** `url`: of the management listener, or of the balancer before it. */
  constructor(url: string, tally: ReplicaTally) {
    this.#url = url;
    this.#tally = tally;
  }

  /** One client: writes its keys and reads any, until `isOver`. */
  async run(isOver: () => boolean): Promise<void> {
    const own: Record<Kind, Register[]> = {
      tools: [this.#create('tools'), this.#create('tools')],
      namespaces: [this.#create('namespaces')],
    };
    while (!isOver()) {
      const kind = Math.random() < 0.7 ? 'tools' : 'namespaces';
      const chance = Math.random();
      if (chance < 0.03) {
        await this.list(this.#url, kind);
      } else if (chance < 0.5) {
        const all = [...this.#registers[kind].values()].slice(-60);
        const register = all[Math.floor(Math.random() * all.length)];
        if (register) await this.#read(kind, register);
      } else {
        const at = Math.floor(Math.random() * own[kind].length);
        const register = own[kind][at];
        if (register) await this.#write(kind, register);
        if (register?.isRetired) own[kind][at] = this.#create(kind);
      }
    }
  }

  /** Compares all keys with what `url` returns. */
  async list(url: string, kind: Kind): Promise<void> {
    const floors = [...this.#registers[kind].values()].map((register) => ({ register, floor: register.floor }));
    const reply = await manage(url, 'GET', `/${kind}`);
    if (!this.#isRead(reply, `GET /${kind}`)) return;
    const isStale = reply.body.stale === true;
    const values = new Map<unknown, string>();
    for (const item of Array.isArray(reply.body.data) ? reply.body.data : []) values.set(item.name, textOf(kind, item));
    for (const { register, floor } of floors) {
      this.#tally.fail(...register.check(values.get(register.name), floor, isStale));
    }
  }

  #create(kind: Kind): Register {
    const register = new Register(`${kind === 'tools' ? 't' : 'n'}${++this.#created}`);
    this.#registers[kind].set(register.name, register);
    return register;
  }

  async #write(kind: Kind, register: Register): Promise<void> {
    const { name } = register;
    const exists = register.text !== undefined;
    const removes = exists && Math.random() < 0.3;
    const text = removes ? undefined : `v${++this.#version}`;
    const path = `/${kind}/${name}`;
    const body =
      kind === 'namespaces'
        ? { name, labels: { version: text } }
        : { name, description: text, uri: 'http://tool', toolType: 'http', input_schema: { type: 'object' } };
    register.write(text);
    const [method, target]: [string, string] = removes
      ? ['DELETE', path]
      : exists
        ? ['PUT', path]
        : ['POST', `/${kind}`];
    const reply = await manage(this.#url, method, target, removes ? undefined : body);
    const outcome = outcomeOf(reply);
    if (outcome === undefined) {
      this.#tally.fail(`${method} ${target}: ${reply?.status} ${JSON.stringify(reply?.body.error)}`);
    }
    this.#tally.fail(...register.end(outcome ?? 'unknown'));
    this.#tally.writes[outcome ?? 'unknown']++;
    if (!reply) this.#tally.lost++;
  }

  async #read(kind: Kind, register: Register): Promise<void> {
    const { floor } = register;
    const path = `/${kind}/${register.name}`;
    const reply = await manage(this.#url, 'GET', path);
    if (!this.#isRead(reply, `GET ${path}`)) return;
    const found = reply.status === 404 ? undefined : textOf(kind, reply.body.data);
    this.#tally.fail(...register.check(found, floor, reply.body.stale === true));
  }

  /** Counts a read; whether it has a result. */
  #isRead(reply: Reply | undefined, request: string): reply is Reply {
    // 503: a replica that has not reached the database since its start.
    if (!reply || reply.status === 503) {
      this.#tally.lost++;
      return false;
    }
    if (reply.status !== 200 && reply.status !== 404) {
      this.#tally.fail(`${request}: ${reply.status} ${JSON.stringify(reply.body.error)}`);
      return false;
    }
    if (reply.body.stale === true) this.#tally.staleReads++;
    else this.#tally.reads++;
    return true;
  }
}

function textOf(kind: Kind, item: unknown): string {
  const { description, labels } = Object(item);
  return String(kind === 'tools' ? description : Object(labels).version);
}

/** The replicas behind a balancer, as clients reach each of them. */
export interface ReplicaAddresses {
  /** URLs of their MCP endpoints. */
  readonly endpoints: readonly string[];
  /** Whether the process with this id has ended. */
  hasEnded(id: string): boolean;
}

/** A change by which a tool is certainly disabled. */
interface Disabling {
  /** Whether all replicas that run have confirmed it. The others must ask the database before they answer. */
  readonly isConfirmed: boolean;
}

/** A tool of the upstream that is switched on and off. */
interface SwitchedTool {
  readonly name: string;
  /** Undefined if it may be called. */
  disabledBy: Disabling | undefined;
  /** Time before which it is not switched again: a change of unknown outcome may still take effect. */
  restsUntil: number;
}

/** A call, until it ends. */
interface Call {
  readonly tool: SwitchedTool;
  /** The change by which its tool was disabled when it began. */
  readonly disabledBy: Disabling | undefined;
  executions: number;
}

/** Longest time after which a change of unknown outcome takes effect: faults and transactions are shorter. */
const REST_MS = 30_000;

/** Clients that disable and enable tools of an upstream, and others that call them. */
export class ToolClients {
  readonly #tally: ReplicaTally;
  readonly #tools: readonly SwitchedTool[];
  readonly #calls = new Map<string, Call>();
  readonly #replicas: ReplicaAddresses;
  /** Calls that follow a disabling. */
  readonly #following = new Set<Promise<void>>();
  #lastCall = 0;

  constructor(names: readonly string[], replicas: ReplicaAddresses, tally: ReplicaTally) {
    this.#tally = tally;
    this.#replicas = replicas;
    this.#tools = names.map((name) => ({ name, disabledBy: undefined, restsUntil: 0 }));
  }

  /** The upstream calls this for each call that it carries out. */
  onExecuted(id: string): void {
    const call = this.#calls.get(id);
    if (!call) return this.#tally.fail(`the upstream got the unknown call ${id}`);
    const { tool, disabledBy } = call;
    if (++call.executions > 1) this.#tally.fail(`call ${id} was carried out ${call.executions} times`);
    if (disabledBy !== undefined && tool.disabledBy === disabledBy) {
      const by = disabledBy.isConfirmed ? 'all replicas had confirmed that' : 'a replica had not confirmed that';
      this.#tally.fail(`${tool.name} was called after it had been disabled; ${by}`);
    }
  }

  /** One client that switches the tools whose numbers are `client` modulo `clients`, until `isOver`. */
  async switchTools(url: string, client: number, clients: number, isOver: () => boolean): Promise<void> {
    const own = this.#tools.filter((_tool, at) => at % clients === client);
    while (!isOver()) {
      const rested = own.filter(({ restsUntil }) => performance.now() > restsUntil);
      const tool = rested[Math.floor(Math.random() * rested.length)];
      if (!tool) {
        await new Promise((resolve) => setTimeout(resolve, 100));
        continue;
      }
      const before = tool.disabledBy;
      const enabled = before !== undefined;
      tool.disabledBy = undefined;
      const reply = await manage(url, 'POST', '/tools/enabled', { names: [tool.name], enabled });
      const outcome = outcomeOf(reply);
      this.#tally.writes[outcome ?? 'unknown']++;
      if (outcome === undefined)
        this.#tally.fail(`POST /tools/enabled: ${reply?.status} ${JSON.stringify(reply?.body)}`);
      if (outcome === 'acknowledged') {
        this.#tally.switches++;
        const isConfirmed = this.#isConfirmed(reply);
        if (!isConfirmed) this.#tally.unconfirmed++;
        if (!enabled) this.#disabled(tool, { isConfirmed });
      } else if (outcome === 'unknown') {
        if (!reply) this.#tally.lost++;
        tool.restsUntil = performance.now() + REST_MS;
      } else {
        // As before.
        tool.disabledBy = before;
      }
    }
  }

  #isConfirmed(reply: Reply | undefined): boolean {
    const unconfirmed = reply?.body.unconfirmed ?? [];
    return Array.isArray(unconfirmed) && unconfirmed.every((id) => this.#replicas.hasEnded(String(id)));
  }

  /** Calls a tool at each replica when it has just been disabled, also at those that are stopped or cut off. */
  #disabled(tool: SwitchedTool, by: Disabling): void {
    tool.disabledBy = by;
    for (const url of this.#replicas.endpoints) {
      const call = this.#call(url, tool).finally(() => this.#following.delete(call));
      this.#following.add(call);
    }
  }

  /** One client that calls any tool, until `isOver`. `url`: of the MCP endpoint. */
  async callTools(url: string, isOver: () => boolean): Promise<void> {
    while (!isOver()) {
      const tool = this.#tools[Math.floor(Math.random() * this.#tools.length)];
      if (tool) await this.#call(url, tool);
    }
  }

  /** Calls every tool once at each replica, when all other calls have ended. */
  async callAll(): Promise<void> {
    await Promise.all(this.#following);
    for (const url of this.#replicas.endpoints) for (const tool of this.#tools) await this.#call(url, tool);
  }

  async #call(url: string, tool: SwitchedTool): Promise<void> {
    const id = `c${++this.#lastCall}`;
    const call: Call = { tool, disabledBy: tool.disabledBy, executions: 0 };
    if (call.disabledBy) this.#tally.whileDisabled++;
    if (call.disabledBy?.isConfirmed) this.#tally.whileConfirmed++;
    this.#calls.set(id, call);
    const params = { name: tool.name, arguments: { id } };
    const response = await post(url, rpc('tools/call', params)).catch(() => undefined);
    const result = response?.status === 200 ? Object(JSON.parse(reply(response))).result : undefined;
    if (!response || response.status === 502) {
      // It may still be carried out.
      this.#tally.lost++;
      return;
    }
    if (result === undefined) {
      this.#tally.rejected++;
      return;
    }
    this.#tally.calls++;
    if (call.executions !== 1)
      this.#tally.fail(`call ${id} has a result, and was carried out ${call.executions} times`);
  }
}
