import { type Caller, makeCaller } from './caller.ts';
import { type Child, startChild } from './child.ts';
import { at, parseJson } from './json.ts';
import { freePort } from './port.ts';

/** How to start the gateway. */
export interface GatewayStart {
  readonly entry: string;
  readonly nodeFlags: readonly string[];
  readonly log: string | undefined;
  /** Folder for its registry; made by the gateway. */
  readonly registryFolder: string;
  readonly outputFile: string;
  /** Variables of its environment besides those that every gateway of the bench has. */
  readonly variables?: Readonly<Record<string, string>>;
}

/** A running gateway of which `/readyz` answered 200. */
export interface Gateway extends AsyncDisposable {
  readonly child: Child;
  /** Milliseconds from starting the process to `/readyz` answering 200. */
  readonly readyMs: number;
  /** Origin of the management API. */
  readonly management: URL;
  /** Where chat completions are asked for. */
  readonly completions: URL;
  /** MCP endpoint of a namespace. */
  endpoint(namespace: string): URL;
  /** Registers an entry through the management API. */
  create(kind: 'forwards' | 'services' | 'tools', entry: object): Promise<void>;
  /** Registers a forward and waits until it is available with `tools` tools. */
  addForward(name: string, address: URL, namespace: string, tools: number): Promise<void>;
  /** Waits until all `count` forwards are available: discovery after a start is over. */
  discovered(count: number): Promise<void>;
}

/**
 * Starts the gateway on free ports and waits until it is ready.
 *
 * @throws Error with the end of its log when it ends or does not become ready within a minute
 */
export async function startGateway(start: GatewayStart): Promise<Gateway> {
  const managementAddress = `127.0.0.1:${await freePort()}`;
  const mcpAddress = `127.0.0.1:${await freePort()}`;
  const inferenceAddress = `127.0.0.1:${await freePort()}`;
  // What this shell exports of telemetry is not meant for the bench.
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('OTEL_'));
  const env: NodeJS.ProcessEnv = {
    ...Object.fromEntries(inherited),
    SERVICE_MGMT_LISTEN: managementAddress,
    SERVICE_MCP_LISTEN: mcpAddress,
    SERVICE_INFERENCE_LISTEN: inferenceAddress,
    SERVICE_PERSIST_BACKEND: 'file',
    SERVICE_PERSIST_PATH: start.registryFolder,
    RUST_LOG: start.log,
    ...start.variables,
  };
  const began = performance.now();
  const child = startChild('gateway', start.outputFile, process.execPath, [...start.nodeFlags, start.entry], env);
  const caller = makeCaller();
  const stop = async () => {
    caller[Symbol.dispose]();
    await child.stop(2_000);
  };
  try {
    const management = (path: string) => new URL(`http://${managementAddress}${path}`);
    await child.until('/readyz answered 200', 60_000, () => succeeds(caller, management('/readyz')));
    const readyMs = performance.now() - began;
    const forward = (name: string) =>
      caller.get(management(`/api/v1/forwards/${name}`)).then(({ body }) => at(parseJson(body), 'data'));
    const create = async (kind: string, entry: object) => {
      const headers = { 'Content-Type': 'application/json' };
      const { status, body } = await caller.post(management(`/api/v1/${kind}`), {
        headers,
        body: JSON.stringify(entry),
      });
      if (status !== 201) throw new Error(`${kind} "${at(entry, 'name')}": status ${status}: ${body}`);
    };
    return {
      child,
      readyMs,
      management: management('/'),
      completions: new URL(`http://${inferenceAddress}/v1/chat/completions`),
      endpoint: (namespace) => new URL(`http://${mcpAddress}/${namespace}/mcp`),
      create,
      async addForward(name, address, namespace, tools) {
        await create('forwards', { name, address: address.href, namespace });
        await child.until(`forward "${name}" had ${tools} tools`, 60_000, async () => {
          const state = await forward(name);
          return (at(state, 'available') === true && at(state, 'tools_discovered') === tools) || undefined;
        });
      },
      async discovered(count) {
        await child.until(`${count} forwards were available`, 120_000, async () => {
          const { body } = await caller.get(management('/api/v1/forwards'));
          const forwards = at(parseJson(body), 'data');
          if (!Array.isArray(forwards) || forwards.length !== count) return undefined;
          return forwards.every((state: unknown) => at(state, 'available') === true) || undefined;
        });
      },
      [Symbol.asyncDispose]: stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function succeeds(caller: Caller, url: URL): Promise<true | undefined> {
  const answer = await caller.get(url).catch(() => undefined);
  return answer?.status === 200 || undefined;
}
