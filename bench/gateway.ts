import { at, type Caller, makeCaller, parseJson } from './caller.ts';
import { type Child, freePort, startChild } from './child.ts';
import type { Era } from './messages.ts';
import { type Relayed, startNginx } from './programs.ts';

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
  waitForForwards(count: number): Promise<void>;
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
    await child.waitFor('/readyz answered 200', 60_000, () => succeeds(caller, management('/readyz')));
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
        await child.waitFor(`forward "${name}" had ${tools} tools`, 60_000, async () => {
          const state = await forward(name);
          return (at(state, 'available') === true && at(state, 'tools_discovered') === tools) || undefined;
        });
      },
      async waitForForwards(count) {
        await child.waitFor(`${count} forwards were available`, 120_000, async () => {
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

/** A running upstream of the bench. */
export interface Upstream extends AsyncDisposable {
  readonly child: Child;
  /** Its MCP endpoint; a name in front gives a server of its own whose tools carry that name. */
  endpoint(name?: string): URL;
}

/** Waits until a process of the bench has printed the port that it listens on, as one JSON line. */
export function readPort(child: Child): Promise<number> {
  return child.waitFor('it printed its port', 10_000, () => {
    const found = at(parseJson(child.output()), 'port');
    return typeof found === 'number' ? found : undefined;
  });
}

/** Starts an upstream of one era with `tools` tools, answered in pages of `page`. */
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

/** What the tables call what is measured. */
export type ContenderName = 'gateway' | 'gateway, recording off' | 'nginx' | 'direct';

/** Something that answers requests: a gateway, nginx in front of the upstream, or the upstream itself. */
export interface Running {
  readonly name: ContenderName;
  /** The proxy's own process, whose CPU time counts; none for the upstream itself. */
  readonly pid: number | undefined;
  /** Its process as started, whose log is emptied between stretches of load. */
  readonly child: Child | undefined;
}

/** Something that answers MCP requests. */
export interface Contender extends Running {
  endpoint(era: Era): URL;
}

/** One upstream for each protocol era. */
export type Upstreams = Readonly<Record<Era, Upstream>>;

/**
 * Starts nginx, where there is one, and the gateway in front of the upstreams.
 *
 * @param folder takes nginx's files
 * @param owned ends what was started
 */
export async function startContenders(
  start: GatewayStart,
  upstreams: Upstreams,
  nginx: { readonly folder: string; readonly relayed: Relayed } | undefined,
  owned: AsyncDisposableStack,
): Promise<Contender[]> {
  const contenders: Contender[] = [];
  if (nginx !== undefined) {
    const addresses = { legacy: upstreams.legacy.endpoint(), modern: upstreams.modern.endpoint() };
    const started = owned.use(await startNginx(nginx.folder, addresses, nginx.relayed));
    contenders.push({ name: 'nginx', pid: started.workerPid, child: undefined, endpoint: started.endpoint });
  }
  const gateway = owned.use(await startGateway(start));
  await connectUpstreams(gateway, upstreams);
  contenders.push({ name: 'gateway', pid: gateway.child.pid, child: gateway.child, endpoint: gateway.endpoint });
  contenders.push({ name: 'direct', pid: undefined, child: undefined, endpoint: (era) => upstreams[era].endpoint() });
  return contenders;
}

/** Gives the gateway one namespace per era, each with an upstream that speaks only that era. */
export async function connectUpstreams(gateway: Gateway, upstreams: Upstreams): Promise<void> {
  for (const era of ['legacy', 'modern'] as const) {
    await gateway.addForward(`bench-${era}`, upstreams[era].endpoint(), era, 20);
  }
}
