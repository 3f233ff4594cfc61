import { type Child, startChild } from './child.ts';
import { type Gateway, type GatewayStart, readPort, startGateway, startUpstream, type Upstream } from './gateway.ts';
import type { Era } from './messages.ts';
import { type Relayed, startNginx } from './programs.ts';

/** Name of a measured target in the tables. */
export type ContenderName =
  | 'gateway'
  | 'gateway, log off'
  | 'gateway, 10,000 other tools'
  | 'gateway, recording off'
  | 'relay'
  | 'nginx'
  | 'direct';

/** Target of requests: a gateway, a proxy in front of the upstream, or the upstream itself. */
export interface Running {
  readonly name: ContenderName;
  /** Process whose CPU time is measured; undefined for the upstream. */
  readonly pid: number | undefined;
  /** Process whose output is truncated between measurements. */
  readonly child: Child | undefined;
}

/** Target of MCP requests. */
export interface Contender extends Running {
  endpoint(era: Era): URL;
}

/** Upstreams by protocol era. */
export type Upstreams = Readonly<Record<Era, Upstream>>;

const eras = ['legacy', 'modern'] as const;

/**
 * Starts nginx, if available, and the gateway in front of the upstreams.
 *
 * @param owned stops the processes
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
  contenders.push(gatewayContender('gateway', gateway));
  contenders.push({ name: 'direct', pid: undefined, child: undefined, endpoint: (era) => upstreams[era].endpoint() });
  return contenders;
}

/** Returns a gateway as a target. */
export const gatewayContender = (name: ContenderName, { child, endpoint }: Gateway): Contender => ({
  name,
  pid: child.pid,
  child,
  endpoint,
});

/** Starts the plain relay in front of the upstreams. */
export async function startRelay(
  folder: string,
  upstreams: Upstreams,
  owned: AsyncDisposableStack,
): Promise<Contender> {
  const addresses = eras.map((era) => `${era}=${upstreams[era].endpoint().href}`);
  const file = `${import.meta.dirname}/relay.ts`;
  const child = owned.use(startChild('relay', `${folder}/relay.log`, process.execPath, [file, ...addresses]));
  const port = await readPort(child);
  return { name: 'relay', pid: child.pid, child, endpoint: (era) => new URL(`http://127.0.0.1:${port}/${era}/mcp`) };
}

/** Number of namespaces and of their tools in a loaded registry. */
const loaded = { namespaces: 5, tools: 2_000 } as const;

/** Starts a gateway in front of the upstreams with 10,000 tools in other namespaces. */
export async function startLoaded(
  start: GatewayStart,
  upstreams: Upstreams,
  folder: string,
  owned: AsyncDisposableStack,
): Promise<Contender> {
  const gateway = owned.use(await startGateway(start));
  const others = owned.use(await startUpstream(folder, 'legacy', loaded.tools, 500));
  for (let index = 0; index < loaded.namespaces; index++) {
    await gateway.addForward(`other-${index}`, others.endpoint(`other${index}`), `other${index}`, loaded.tools);
  }
  await connectUpstreams(gateway, upstreams);
  return gatewayContender('gateway, 10,000 other tools', gateway);
}

/** Registers one forward per era, in a namespace named after the era. */
export async function connectUpstreams(gateway: Gateway, upstreams: Upstreams): Promise<void> {
  for (const era of eras) await gateway.addForward(`bench-${era}`, upstreams[era].endpoint(), era, 20);
}
