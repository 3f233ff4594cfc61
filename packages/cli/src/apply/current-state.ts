import type { Evaluator, Expose, ForwardHeaders, IdentitySettings, Labels, Namespace, Service } from '@sluice/contract';
import { ApiError, type Client, unwrap } from '@sluice/contract/client';
import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { Failure } from '../failure.ts';
import { validated } from '../files/document.ts';

/** State of the service, as far as a state file can describe it. */
export interface CurrentState {
  readonly namespaces: readonly Namespace[];
  /** In order of registration. */
  readonly forwards: readonly CurrentForward[];
  readonly services: readonly CurrentService[];
  readonly manual: readonly ManualTool[];
  /** Served tools first, then shadowed ones. */
  readonly discovered: readonly DiscoveredTool[];
  /** As submitted, also those that the service has skipped, in order of execution; undefined if the caller may not read them. */
  readonly evaluators: readonly Evaluator[] | undefined;
  /** Null if there is none; undefined if the caller may not read it. */
  readonly identity?: IdentitySettings | null | undefined;
}

export interface CurrentForward {
  readonly name: string;
  readonly address: string;
  readonly namespace: string;
  readonly labels: Labels;
  /** Empty for none. */
  readonly prefix: string;
  /** With references to secrets, as written. */
  readonly headers?: ForwardHeaders | undefined;
  /** Exposed entries; all if undefined. */
  readonly expose?: Expose | undefined;
  readonly proxy?: string | undefined;
  readonly compression?: boolean | undefined;
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
  readonly enabled: boolean;
  /** Another entry has its key, so it can neither be called nor changed. */
  readonly shadowed: boolean;
  readonly labels: Labels;
  /** Its members besides these, with overrides applied. */
  readonly members: JsonObject;
  /** The members that can be overridden, as the upstream returns them. */
  readonly upstream: JsonObject;
}

/** Reads the state. */
export async function readCurrentState(client: Client): Promise<CurrentState> {
  const [namespaces, forwards, services, tools, evaluators, identity] = await Promise.all([
    unwrap(client.GET('/api/v1/namespaces')),
    unwrap(client.GET('/api/v1/forwards')),
    unwrap(client.GET('/api/v1/services')),
    readTools(client),
    ifAllowed(readEvaluators(client)),
    ifAllowed(readIdentity(client)),
  ]);
  const known = forwards.map(({ prefix = '', ...forward }) => ({ ...forward, prefix }));
  return { namespaces, forwards: known, services, ...tools, evaluators, identity };
}

async function readTools(client: Client): Promise<Pick<CurrentState, 'manual' | 'discovered'>> {
  const query = { include: 'shadowed,upstream' } as const;
  const manual: ManualTool[] = [];
  const served: DiscoveredTool[] = [];
  const shadowed: DiscoveredTool[] = [];
  for (const tool of await unwrap(client.GET('/api/v1/tools', { params: { query } }))) {
    const { name, namespace, labels } = tool;
    if (!isJsonObject(tool)) continue;
    const { shadowed: isShadowed, forward, upstreamName = name, upstream, ...members } = tool;
    if (typeof forward !== 'string' || typeof upstreamName !== 'string') {
      // A shadowed manual tool cannot be addressed.
      if (isShadowed !== true)
        manual.push({ namespace, name, members: { ...members, ...pickMember(tool, 'upstream') } });
      continue;
    }
    if (!isJsonObject(upstream))
      throw new Failure('the service is too old: it does not return the upstream members of tools');
    const { name: _name, namespace: _namespace, labels: _labels, enabled = true, ...others } = members;
    // An upstream member called `upstream` is not returned and cannot be overridden.
    const { upstream: _upstream, ...upstreamMembers } = upstream;
    const found = {
      forward,
      upstreamName,
      namespace,
      name,
      labels,
      enabled,
      members: others,
      upstream: upstreamMembers,
    };
    if (isShadowed === true) shadowed.push({ ...found, shadowed: true });
    else served.push({ ...found, shadowed: false });
  }
  return { manual, discovered: [...served, ...shadowed] };
}

/** Has a meaning on discovered tools only; a manual tool may have a member of that name. */
function pickMember(tool: JsonObject, member: string): JsonObject {
  const value = tool[member];
  return value === undefined ? {} : { [member]: value };
}

async function ifAllowed<T>(read: Promise<T>): Promise<T | undefined> {
  try {
    return await read;
  } catch (error) {
    if (error instanceof ApiError && error.code === 'FORBIDDEN') return undefined;
    throw error;
  }
}

async function readIdentity(client: Client): Promise<IdentitySettings | null> {
  const settings = await unwrap(client.GET('/api/v1/identity'));
  return settings && (await validated(({ identity }) => identity, settings, 'identity'));
}

/** Reads the active revision: the list of active evaluators does not contain skipped ones. */
async function readEvaluators(client: Client): Promise<Evaluator[]> {
  try {
    const { evaluators } = await unwrap(client.GET('/api/v1/evaluators/revisions/active'));
    return await Promise.all(evaluators.map((each) => validated(({ evaluator }) => evaluator, each, 'evaluator')));
  } catch (error) {
    if (error instanceof ApiError && error.code === 'NOT_FOUND') return [];
    throw error;
  }
}
