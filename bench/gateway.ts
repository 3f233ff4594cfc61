import { at, type Caller, makeCaller, parseJson } from './caller.ts';
import { type Child, freePort, startChild } from './child.ts';
import type { Era } from './messages.ts';

/** Start options of a gateway. */
export interface GatewayStart {
  readonly entry: string;
  readonly nodeFlags: readonly string[];
  readonly log: string | undefined;
  /** Folder of the registry, created by the gateway. */
  readonly registryFolder: string;
  readonly outputFile: string;
  /** Additional environment variables. */
  readonly variables?: Readonly<Record<string, string>>;
  /** Longest time until it is ready; a minute by default. */
  readonly readyTimeoutMs?: number;
}

/** Running gateway that is ready. */
export interface Gateway extends AsyncDisposable {
  readonly child: Child;
  /** Milliseconds from process start to readiness. */
  readonly readyMs: number;
  /** URL of the management API. */
  readonly management: URL;
  /** URL of chat completions. */
  readonly completions: URL;
  /** Returns the MCP endpoint of a namespace. */
  endpoint(namespace: string): URL;
  /** Registers an entry through the management API. */
  create(kind: 'forwards' | 'services' | 'tools', entry: object): Promise<void>;
  /** Registers a forward and waits until it is available with `tools` tools. */
  addForward(name: string, address: URL, namespace: string, tools: number): Promise<void>;
}

/**
 * Starts the gateway on free ports with the command that `npm start` becomes, its settings the default ones and its log in a
 * file, and waits until it is ready.
 *
 * @throws Error with its last output if it exits or is not ready in time
 */
export async function startGateway(start: GatewayStart): Promise<Gateway> {
  const managementAddress = `127.0.0.1:${await freePort()}`;
  const mcpAddress = `127.0.0.1:${await freePort()}`;
  const inferenceAddress = `127.0.0.1:${await freePort()}`;
  // Settings of the shell must not affect measurements.
  const inherited = Object.entries(process.env).filter(([name]) => !/^(?:SERVICE_|OTEL_|RUST_LOG$)/.test(name));
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
  const startedAt = performance.now();
  const child = startChild('gateway', start.outputFile, process.execPath, [...start.nodeFlags, start.entry], env);
  const caller = makeCaller();
  const stop = async () => {
    caller[Symbol.dispose]();
    await child.stop(2_000);
  };
  try {
    const management = (path: string) => new URL(`http://${managementAddress}${path}`);
    await child.waitFor('/readyz responded with 200', start.readyTimeoutMs ?? 60_000, () =>
      succeeds(caller, management('/readyz')),
    );
    const readyMs = performance.now() - startedAt;
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
        await child.waitFor(`forward "${name}" had ${tools} tools`, 60_000, async () => {
          const state = await forward(name);
          return (at(state, 'available') === true && at(state, 'tools_discovered') === tools) || undefined;
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
  const response = await caller.get(url).catch(() => undefined);
  return response?.status === 200 || undefined;
}

/** Running upstream MCP server. */
export interface Upstream extends AsyncDisposable {
  readonly child: Child;
  /** Returns the MCP endpoint. A name selects a server whose tool names have it as a prefix. */
  endpoint(name?: string): URL;
}

/** Waits until a child process has printed its port as a JSON line. */
export function readPort(child: Child): Promise<number> {
  return child.waitFor('it printed its port', 10_000, () => {
    const found = at(parseJson(child.output()), 'port');
    return typeof found === 'number' ? found : undefined;
  });
}

/** Starts an upstream of one era with `tools` tools in pages of `page`. */
export async function startUpstream(folder: string, era: Era, tools: number, page: number): Promise<Upstream> {
  const args = ['--era', era, '--tools', String(tools), '--page', String(page)];
  const file = `${import.meta.dirname}/upstream.ts`;
  const child = startChild(`upstream (${era})`, `${folder}/upstream-${era}-${tools}.log`, process.execPath, [
    file,
    ...args,
  ]);
  const port = await readPort(child);
  return {
    child,
    endpoint: (name) => new URL(`http://127.0.0.1:${port}${name === undefined ? '' : `/${name}`}/mcp`),
    [Symbol.asyncDispose]: () => child.stop(2_000),
  };
}
