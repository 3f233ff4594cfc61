import { readdir, readFile, readlink } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import type { Gateway } from '../fixtures/gateway.ts';

/** What the gateway holds at one moment. */
export interface Holdings {
  /** Instances of classes that come and go with sessions and calls, by the class's name. */
  readonly instances: Readonly<Record<string, number>>;
  /** Sockets that the process has open, those it listens on included. */
  readonly sockets: number;
  /** Bytes of the JavaScript heap after a garbage collection. */
  readonly heap: number;
  /** Bytes of the process in main memory. */
  readonly rss: number;
}

/** Classes of the gateway, and the module of each below `packages/server/src`. */
const CLASSES: Readonly<Record<string, string>> = {
  ActiveSession: 'mcp/sessions/live-sessions.ts',
  ClientStream: 'mcp/sessions/resumable-streams.ts',
  RelayedCall: 'upstreams/mcp/relay/relayed-call.ts',
  SuspendableCall: 'upstreams/mcp/era-translation/parkable-call.ts',
  UpstreamServerRequests: 'upstreams/mcp/relay/server-requests.ts',
  NotificationBridge: 'upstreams/mcp/sessions/session-bindings.ts',
  SessionStream: 'upstreams/mcp/streams/notification-stream.ts',
  StreamConnection: 'upstreams/mcp/streams/reconnecting-stream.ts',
  ResponseWriter: 'mcp/response.ts',
  SessionNotices: 'mcp/list-changes.ts',
  ServerResponse: 'node:http',
  Socket: 'node:net',
};
const MAIN = new URL('../../packages/server/src/main.ts', import.meta.url);

/** The arguments of Node.js that a gateway needs to be looked into. */
export const PROBED: readonly string[] = ['--inspect=127.0.0.1:0'];

/** Looks into a gateway, which was started with {@link PROBED}, from outside: over the inspector and /proc. */
export class ProcessProbe {
  readonly #socket: WebSocket;
  readonly #pid: number;
  readonly #waiting = new Map<number, (answer: Record<string, unknown>) => void>();
  #last = 0;

  private constructor(socket: WebSocket, pid: number) {
    this.#socket = socket;
    this.#pid = pid;
    socket.addEventListener('message', ({ data }) => {
      const message: { id?: number; result?: Record<string, unknown> } = JSON.parse(String(data));
      this.#waiting.get(message.id ?? -1)?.(message.result ?? {});
      this.#waiting.delete(message.id ?? -1);
    });
  }

  static async connect(gateway: Gateway): Promise<ProcessProbe> {
    const url = gateway.logs.map(({ msg }) => /^Debugger listening on (\S+)/.exec(msg)?.[1]).find(Boolean);
    if (url === undefined) throw new Error('the gateway has no inspector');
    const socket = new WebSocket(url);
    await new Promise((resolve, reject) => {
      socket.addEventListener('open', resolve);
      socket.addEventListener('error', reject);
    });
    return new ProcessProbe(socket, gateway.pid() ?? 0);
  }

  /** What the process holds after a garbage collection; `classes` are those that are counted, all that are known else. */
  async holdings(classes: readonly string[] = Object.keys(CLASSES)): Promise<Holdings> {
    const instances: Record<string, number> = {};
    for (const name of classes) instances[name] = await this.#count(name, CLASSES[name] ?? '');
    await this.#send('HeapProfiler.collectGarbage');
    const heap = Number(await this.#evaluate('process.memoryUsage().heapUsed'));
    return { instances, heap, sockets: await this.#sockets(), rss: await this.rss() };
  }

  /** Bytes of the process in main memory. */
  async rss(): Promise<number> {
    const status = await readFile(`/proc/${this.#pid}/status`, 'utf8');
    return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]) * 1024;
  }

  /** Looks again every second until `test` is true of what is held, at most for so long; what was held last. */
  async until(test: (holdings: Holdings) => boolean, limitMs: number, classes?: readonly string[]): Promise<Holdings> {
    const over = performance.now() + limitMs;
    for (;;) {
      const holdings = await this.holdings(classes);
      if (test(holdings) || performance.now() > over) return holdings;
      await delay(1_000);
    }
  }

  close(): void {
    this.#socket.close();
  }

  async #count(name: string, module: string): Promise<number> {
    const path = module.startsWith('node:') ? module : `./${module}`;
    const require = `process.getBuiltinModule('node:module').createRequire(${JSON.stringify(MAIN.href)})`;
    const group = { objectGroup: 'count' };
    const expression = `${require}(${JSON.stringify(path)}).${name}.prototype`;
    const prototype = await this.#send('Runtime.evaluate', { expression, ...group });
    if (prototype.exceptionDetails !== undefined) throw new Error(`the gateway has no class ${name} in ${module}`);
    const found = await this.#send('Runtime.queryObjects', {
      prototypeObjectId: objectId(prototype.result),
      ...group,
    });
    const counted = await this.#send('Runtime.callFunctionOn', {
      objectId: objectId(found.objects),
      functionDeclaration: 'function () { return this.length }',
      returnByValue: true,
    });
    await this.#send('Runtime.releaseObjectGroup', group);
    return Number(Object(counted.result).value);
  }

  async #evaluate(expression: string): Promise<unknown> {
    const { result } = await this.#send('Runtime.evaluate', { expression, returnByValue: true });
    return Object(result).value;
  }

  #send(method: string, params: Record<string, unknown> = {}): Promise<Record<string, unknown>> {
    const id = ++this.#last;
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve);
      this.#socket.send(JSON.stringify({ id, method, params }));
    });
  }

  async #sockets(): Promise<number> {
    const folder = `/proc/${this.#pid}/fd`;
    const links = await Promise.all((await readdir(folder)).map((fd) => readlink(`${folder}/${fd}`).catch(() => '')));
    return links.filter((link) => link.startsWith('socket:')).length;
  }
}

function objectId(value: unknown): unknown {
  const { objectId: id } = Object(value);
  if (typeof id !== 'string') throw new Error('the gateway could not be looked into');
  return id;
}
