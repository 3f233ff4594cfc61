import { readdir, readFile, readlink } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import type { Gateway } from '../fixtures/gateway.ts';

/** Memory and sockets of the gateway at one moment. */
export interface ResourceUsage {
  /** Instances of classes whose lifetime is that of sessions and calls, by class name. */
  readonly instances: Readonly<Record<string, number>>;
  /** Open sockets of the process, listening ones included. */
  readonly sockets: number;
  /** Bytes of the JavaScript heap after a garbage collection. */
  readonly heap: number;
  /** Resident set size of the process in bytes. */
  readonly rss: number;
}

/** Classes of the gateway, and the module of each in `packages/server/src`. */
const CLASSES: Readonly<Record<string, string>> = {
  ActiveSession: 'mcp/sessions/active-sessions.ts',
  ClientStream: 'mcp/sessions/resumable-streams.ts',
  SessionListChanges: 'mcp/list-changes.ts',
  ResponseWriter: 'mcp/response.ts',
  RelayedCall: 'upstreams/mcp/relay/relayed-call.ts',
  RelayedServerRequests: 'upstreams/mcp/relay/server-requests.ts',
  SuspendableCall: 'upstreams/mcp/era-translation/suspendable-call.ts',
  NotificationBridge: 'upstreams/mcp/sessions/notification-bridge.ts',
  NotificationStream: 'upstreams/mcp/streams/notification-stream.ts',
  ResponseReader: 'upstreams/mcp/response-reader.ts',
  ServerResponse: 'node:http',
  Socket: 'node:net',
};
const MAIN = new URL('../../packages/server/src/main.ts', import.meta.url);

/** Node.js arguments that enable the inspector. */
export const INSPECTOR_ARGS: readonly string[] = ['--inspect=127.0.0.1:0'];

/** Measures a gateway that was started with {@link INSPECTOR_ARGS}, with the inspector and /proc. */
export class ProcessProbe {
  readonly #socket: WebSocket;
  readonly #pid: number;
  readonly #pending = new Map<number, (result: Record<string, unknown>) => void>();
  #last = 0;

  private constructor(socket: WebSocket, pid: number) {
    this.#socket = socket;
    this.#pid = pid;
    socket.addEventListener('message', ({ data }) => {
      const message: { id?: number; result?: Record<string, unknown> } = JSON.parse(String(data));
      this.#pending.get(message.id ?? -1)?.(message.result ?? {});
      this.#pending.delete(message.id ?? -1);
    });
  }

  static async connect(gateway: Gateway): Promise<ProcessProbe> {
    const url = gateway.logs.map(({ msg }) => /^Debugger listening on (\S+)/.exec(msg)?.[1]).findLast(Boolean);
    if (url === undefined) throw new Error('the gateway has no inspector; start it with INSPECTOR_ARGS');
    return ProcessProbe.open(url, gateway.pid() ?? 0);
  }

  /** Connects to the inspector of a process at this URL. */
  static async open(url: string, pid: number): Promise<ProcessProbe> {
    const socket = new WebSocket(url);
    await new Promise((resolve, reject) => {
      socket.addEventListener('open', resolve);
      socket.addEventListener('error', reject);
    });
    return new ProcessProbe(socket, pid);
  }

  /** Measures the process after a garbage collection; `classes` are the classes to count, by default all known ones. */
  async usage(classes: readonly string[] = Object.keys(CLASSES)): Promise<ResourceUsage> {
    const instances = await this.#count(classes);
    await this.#send('HeapProfiler.collectGarbage');
    const heap = Number(await this.#evaluate('process.memoryUsage().heapUsed'));
    return { instances, heap, sockets: await this.#sockets(), rss: await this.rss() };
  }

  /** Memory after garbage collections: the JavaScript heap with buffers, and what the process has resident. In bytes. */
  async memory(): Promise<{ readonly used: number; readonly rss: number }> {
    // The buffers that the first one finds are freed later; the second one waits for that.
    await this.#send('HeapProfiler.collectGarbage');
    await this.#send('HeapProfiler.collectGarbage');
    const expression = '(({ heapUsed, external }) => heapUsed + external)(process.memoryUsage())';
    return { used: Number(await this.#evaluate(expression)), rss: await this.rss() };
  }

  /** Returns the resident set size of the process in bytes. */
  async rss(): Promise<number> {
    const status = await readFile(`/proc/${this.#pid}/status`, 'utf8');
    return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]) * 1024;
  }

  /** Measures every second until `test` is true or `limitMs` have passed; returns the last measurement. */
  async until(
    test: (usage: ResourceUsage) => boolean,
    limitMs: number,
    classes?: readonly string[],
  ): Promise<ResourceUsage> {
    const deadline = performance.now() + limitMs;
    for (;;) {
      const usage = await this.usage(classes);
      if (test(usage) || performance.now() > deadline) return usage;
      await delay(1_000);
    }
  }

  close(): void {
    this.#socket.close();
  }

  /** Instances of each class. One query finds all objects: each collects the garbage several times. */
  async #count(classes: readonly string[]): Promise<Record<string, number>> {
    const group = { objectGroup: 'count' };
    const require = `process.getBuiltinModule('node:module').createRequire(${JSON.stringify(MAIN.href)})`;
    const prototypes = classes.map((name) => {
      const module = CLASSES[name] ?? '';
      const path = module.startsWith('node:') ? module : `./${module}`;
      return `${require}(${JSON.stringify(path)}).${name}.prototype`;
    });
    const list = await this.#send('Runtime.evaluate', { expression: `[${prototypes.join()}]`, ...group });
    if (list.exceptionDetails !== undefined) throw new Error(`the gateway lacks one of the classes ${classes.join()}`);
    const all = await this.#send('Runtime.evaluate', { expression: 'Object.prototype', ...group });
    const found = await this.#send('Runtime.queryObjects', { prototypeObjectId: objectId(all.result), ...group });
    const counted = await this.#send('Runtime.callFunctionOn', {
      objectId: objectId(found.objects),
      functionDeclaration: `function (prototypes) {
        return prototypes.map((prototype) => {
          if (prototype === undefined) throw new Error('no such class');
          let count = 0;
          for (const object of this) if (Object.prototype.isPrototypeOf.call(prototype, object)) count++;
          return count;
        });
      }`,
      arguments: [{ objectId: objectId(list.result) }],
      returnByValue: true,
    });
    await this.#send('Runtime.releaseObjectGroup', group);
    if (counted.exceptionDetails !== undefined) throw new Error(`cannot count ${classes.join()} in the gateway`);
    const counts: unknown[] = Array.from(Object(Object(counted.result).value));
    return Object.fromEntries(classes.map((name, at) => [name, Number(counts[at])]));
  }

  async #evaluate(expression: string): Promise<unknown> {
    const { result } = await this.#send('Runtime.evaluate', { expression, returnByValue: true });
    return Object(result).value;
  }

  #send(method: string, params: Record<string, unknown> = {}): Promise<Record<string, unknown>> {
    const id = ++this.#last;
    return new Promise((resolve) => {
      this.#pending.set(id, resolve);
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
  if (typeof id !== 'string') throw new Error('the inspector returned no object id');
  return id;
}
