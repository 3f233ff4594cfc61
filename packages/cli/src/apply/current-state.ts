import type { Labels, Namespace, Service } from '@sluice/contract';
import { type Client, unwrap } from '@sluice/contract/client';
import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { Failure } from '../failure.ts';

/** What the service has, as far as a state file can say something of it. */
export interface CurrentState {
  readonly namespaces: readonly Namespace[];
  /** In order of registration. */
  readonly forwards: readonly CurrentForward[];
  readonly services: readonly CurrentService[];
  readonly manual: readonly ManualTool[];
  /** Shadowed ones included, after those that are served. */
  readonly discovered: readonly DiscoveredTool[];
  /** Resources and prompts, of which a state file says nothing: they go with their namespace. */
  readonly others: readonly OtherEntry[];
}

export interface CurrentForward {
  readonly name: string;
  readonly address: string;
  readonly namespace: string;
  readonly labels: Labels;
  /** Empty for none. */
  readonly prefix: string;
}

export type CurrentService = Omit<Service, 'health'>;

export interface ManualTool {
  readonly namespace: string;
  readonly name: string;
  /** All of its members. */
  readonly members: JsonObject;
}

export interface DiscoveredTool {
  readonly forward: string;
  /** The name that the upstream uses. */
  readonly upstreamName: string;
  readonly namespace: string;
  readonly name: string;
  /** Another entry holds its key, so that it can be neither called nor changed. */
  readonly shadowed: boolean;
  readonly labels: Labels;
  /** Its members besides these, with overrides applied. */
  readonly members: JsonObject;
  /** What the upstream says itself in the members that can be overridden. */
  readonly upstream: JsonObject;
}

export interface OtherEntry {
  readonly kind: 'resource' | 'prompt';
  readonly namespace: string;
  /** Undefined for a hand-made one. */
  readonly forward: string | undefined;
}

/** Reads all of it. Resources and prompts only `withOthers`. */
export async function readCurrentState(client: Client, withOthers: boolean): Promise<CurrentState> {
  const [namespaces, forwards, services, tools, others] = await Promise.all([
    unwrap(client.GET('/api/v1/namespaces')),
    unwrap(client.GET('/api/v1/forwards')),
    unwrap(client.GET('/api/v1/services')),
    readTools(client),
    withOthers ? readOtherEntries(client) : [],
  ]);
  const known = forwards.map(({ name, address, namespace, labels, prefix = '' }) => ({
    name,
    address,
    namespace,
    labels,
    prefix,
  }));
  return { namespaces, forwards: known, services, ...tools, others };
}

/** The tools of the service, by who made them. */
export type CurrentTools = Pick<CurrentState, 'manual' | 'discovered'>;

/** Reads the tools alone. */
export async function readTools(client: Client): Promise<CurrentTools> {
  const query = { include: 'shadowed,upstream' } as const;
  const manual: ManualTool[] = [];
  const served: DiscoveredTool[] = [];
  const shadowed: DiscoveredTool[] = [];
  for (const tool of await unwrap(client.GET('/api/v1/tools', { params: { query } }))) {
    const { name, namespace, labels } = tool;
    if (!isJsonObject(tool)) continue;
    const { shadowed: isShadowed, forward, upstreamName = name, upstream, ...members } = tool;
    if (typeof forward !== 'string' || typeof upstreamName !== 'string') {
      // One that is shadowed cannot be addressed.
      if (isShadowed !== true)
        manual.push({ namespace, name, members: { ...members, ...pickMember(tool, 'upstream') } });
      continue;
    }
    if (!isJsonObject(upstream)) throw new Failure('this version of the service does not show what upstreams say');
    const { name: _name, namespace: _namespace, labels: _labels, ...others } = members;
    // One of its own of that name is not shown beside it, and nobody can override it.
    const { upstream: _upstream, ...theirs } = upstream;
    const found = { forward, upstreamName, namespace, name, labels, members: others, upstream: theirs };
    if (isShadowed === true) shadowed.push({ ...found, shadowed: true });
    else served.push({ ...found, shadowed: false });
  }
  return { manual, discovered: [...served, ...shadowed] };
}

/** A member that means something on discovered tools alone; a hand-made one may have its own of the name. */
function pickMember(tool: JsonObject, member: string): JsonObject {
  const value = tool[member];
  return value === undefined ? {} : { [member]: value };
}

async function readOtherEntries(client: Client): Promise<OtherEntry[]> {
  const params = { query: { include: 'shadowed' } } as const;
  const [resources, prompts] = await Promise.all([
    unwrap(client.GET('/api/v1/resources', { params })),
    unwrap(client.GET('/api/v1/prompts', { params })),
  ]);
  return [
    ...resources.map(({ namespace, forward }) => ({ kind: 'resource', namespace, forward }) as const),
    ...prompts.map(({ namespace, forward }) => ({ kind: 'prompt', namespace, forward }) as const),
  ];
}
