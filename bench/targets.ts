import { startChild } from './child.ts';
import { type Gateway, readPort, startUpstream, type Upstream } from './gateway.ts';
import type { Era } from './messages.ts';

/** Target of load: a gateway, a proxy in front of the upstreams, or an upstream itself. */
export interface Target {
  readonly name: string;
  /** Process whose CPU time is measured. */
  readonly pid: number;
  /** Returns the URL for a namespace, which is named after the era of its upstream. */
  endpoint(namespace: string): URL;
  /** Truncates the output of a process that writes a log. */
  clearOutput?(): void;
  /** True if legacy clients have sessions. */
  readonly hasSessions?: boolean;
}

/** Upstreams by protocol era. */
export type Upstreams = Readonly<Record<Era, Upstream>>;

const eras = ['legacy', 'modern'] as const;
const TOOLS = 20;

/** Starts an upstream of each era. */
export async function startUpstreams(folder: string, owned: AsyncDisposableStack): Promise<Upstreams> {
  const start = async (era: Era) => owned.use(await startUpstream(folder, era, TOOLS, TOOLS));
  return { legacy: await start('legacy'), modern: await start('modern') };
}

/** Returns the addresses of the upstreams by namespace. */
export const addressesOf = ({ legacy, modern }: Upstreams): Readonly<Record<Era, URL>> => ({
  legacy: legacy.endpoint(),
  modern: modern.endpoint(),
});

/** Registers one forward per era, in a namespace named after the era. */
export async function connectUpstreams(gateway: Gateway, upstreams: Upstreams): Promise<void> {
  for (const era of eras) await gateway.addForward(`bench-${era}`, upstreams[era].endpoint(), era, TOOLS);
}

/** Returns a gateway as a target. */
export const gatewayTarget = ({ child, endpoint }: Gateway, name = 'gateway'): Target => ({
  name,
  pid: child.pid,
  endpoint,
  clearOutput: () => child.clearOutput(),
  hasSessions: true,
});

/** Starts the plain relay in front of the upstreams. */
export async function startRelay(folder: string, upstreams: Upstreams, owned: AsyncDisposableStack): Promise<Target> {
  const addresses = Object.entries(addressesOf(upstreams)).map(([era, { href }]) => `${era}=${href}`);
  const file = `${import.meta.dirname}/relay.ts`;
  const child = owned.use(startChild('relay', `${folder}/relay.log`, process.execPath, [file, ...addresses]));
  const port = await readPort(child);
  return { name: 'relay', pid: child.pid, endpoint: (era) => new URL(`http://127.0.0.1:${port}/${era}/mcp`) };
}

/** Number of namespaces and of their tools in a loaded registry. */
const loaded = { namespaces: 5, tools: 2_000 } as const;

/** Adds 10,000 tools in other namespaces to a gateway. */
export async function addOtherTools(gateway: Gateway, folder: string, owned: AsyncDisposableStack): Promise<void> {
  const others = owned.use(await startUpstream(folder, 'legacy', loaded.tools, 500));
  for (let index = 0; index < loaded.namespaces; index++) {
    await gateway.addForward(`other-${index}`, others.endpoint(`other${index}`), `other${index}`, loaded.tools);
  }
}
