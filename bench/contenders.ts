import type { Child } from './child.ts';
import type { Fixture } from './fixture.ts';
import { type Gateway, type GatewayStart, startGateway } from './gateway.ts';
import type { Era } from './messages.ts';
import { type Relayed, startNginx } from './nginx.ts';

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
export type Upstreams = Readonly<Record<Era, Fixture>>;

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
