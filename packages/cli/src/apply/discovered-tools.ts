import type { Forward, Labels } from '@sluice/contract';
import { type Client, unwrap } from '@sluice/contract/client';
import { equal } from '@sluice/protocol/json/equal';
import type { JsonObject } from '@sluice/protocol/json/parse';
import { Failure } from '../failure.ts';
import { type DiscoveredTool, readTools } from './current-state.ts';
import type { Overrides } from './desired-state.ts';
import { type Change, diffMembers, type OverrideStep } from './step.ts';

/** Defaults that a forward sets for its tools. */
export interface ForwardDefaults {
  readonly namespace: string;
  readonly prefix: string;
}

/** All members that a PUT of a discovered tool sets; `uri` and `toolType` belong to its forward. */
export interface EffectiveTool {
  readonly name: string;
  readonly namespace: string;
  readonly labels: Labels;
  readonly enabled: boolean;
  readonly members: JsonObject;
}

/** Reverts all overrides, but enables nothing. */
export const NO_OVERRIDES: Overrides = {
  name: undefined,
  namespace: undefined,
  labels: {},
  enabled: undefined,
  members: {},
};

/** Returns a discovered tool with overrides applied; all other members are the upstream's. */
export function applyOverrides(wanted: Overrides, tool: DiscoveredTool, home: ForwardDefaults): EffectiveTool {
  const { upstream } = tool;
  const members = new Map(Object.entries(upstream));
  for (const [member, value] of Object.entries(wanted.members)) {
    const upstreamValue = members.get(member);
    // The service treats equal numbers in different notations as equal and keeps the upstream's notation.
    if (value !== null && upstreamValue !== undefined && equal(value, upstreamValue)) continue;
    if (value !== null) members.set(member, value);
    else if (member === 'description') members.set(member, '');
    else members.delete(member);
  }
  for (const fixed of ['uri', 'toolType']) {
    const value = tool.members[fixed];
    if (value !== undefined) members.set(fixed, value);
  }
  const service = Object.entries(tool.labels).filter(([label]) => isServiceLabel(label));
  return {
    name: wanted.name ?? home.prefix + tool.upstreamName,
    namespace: wanted.namespace ?? home.namespace,
    labels: { ...wanted.labels, ...Object.fromEntries(service) },
    enabled: wanted.enabled ?? tool.enabled,
    members: Object.fromEntries(members),
  };
}

/** Returns the changes from a discovered tool to its next state. */
export function toolChanges(tool: DiscoveredTool, next: EffectiveTool): Change[] {
  return diffMembers(flattenTool(tool), flattenTool(next));
}

/** Returns all members in one object. */
export function flattenTool({ name, namespace, labels, enabled, members }: EffectiveTool): JsonObject {
  return { name, namespace, labels, enabled, ...members };
}

/** Whether a label is set by the service and not changed by a PUT. */
export function isServiceLabel(label: string): boolean {
  return label.startsWith('service.') && label !== 'service.forward_headers';
}

/** Origin of a discovered tool, which is the same whatever the tool is called. */
interface Origin {
  readonly forward: string;
  readonly upstreamName: string;
}

/** Map of values of discovered tools by origin. The first of several with the same origin wins. */
export class ToolsByOrigin<T extends Origin> {
  readonly #byOrigin = new Map<string, T>();

  constructor(tools: readonly T[]) {
    for (const tool of tools) {
      const key = originKey(tool.forward, tool.upstreamName);
      if (!this.#byOrigin.has(key)) this.#byOrigin.set(key, tool);
    }
  }

  get all(): T[] {
    return [...this.#byOrigin.values()];
  }

  replace(tool: T): void {
    this.#byOrigin.set(originKey(tool.forward, tool.upstreamName), tool);
  }

  find(forward: string, upstreamName: string): T | undefined {
    return this.#byOrigin.get(originKey(forward, upstreamName));
  }
}

function originKey(forward: string, upstreamName: string): string {
  return JSON.stringify([forward, upstreamName]);
}

/** Looks up discovered tools while names change. Sends requests only when its data may be stale. */
export class ToolLookup {
  readonly #client: Client;
  #tools: ToolsByOrigin<DiscoveredTool>;
  #current = true;

  constructor(client: Client, tools: readonly DiscoveredTool[]) {
    this.#client = client;
    this.#tools = new ToolsByOrigin(tools);
  }

  /** Marks the data as stale: missing and shadowed tools are looked up again. */
  invalidate(): void {
    this.#current = false;
  }

  /** Removes all tools of a forward. */
  forgetForward(forward: string): void {
    this.#tools = new ToolsByOrigin(this.#tools.all.filter((tool) => tool.forward !== forward));
    this.#current = false;
  }

  /** Records a changed tool. */
  update(tool: DiscoveredTool): void {
    this.#tools.replace(tool);
    this.#current = false;
  }

  /**
   * Returns the current tool of a step; undefined when a step that reverts overrides has none. Throws {@link Failure} with
   * the reason when it does not exist or cannot be changed.
   */
  async find({ forward, upstreamName, position }: OverrideStep): Promise<DiscoveredTool | undefined> {
    let tool = this.#tools.find(forward, upstreamName);
    if ((!tool || tool.shadowed) && !this.#current) {
      this.#tools = new ToolsByOrigin((await readTools(this.#client)).discovered);
      this.#current = true;
      tool = this.#tools.find(forward, upstreamName);
    }
    if (tool ? !tool.shadowed : !position) return tool;
    const reason = tool ? explainShadowed(tool) : await this.#explainMissing(forward, upstreamName);
    throw new Failure(position ? `${position()}: ${reason}` : reason);
  }

  async #explainMissing(forward: string, upstreamName: string): Promise<string> {
    const state = await unwrap(this.#client.GET('/api/v1/forwards/{name}', { params: { path: { name: forward } } }));
    if (!state.available) {
      return `forward ${forward} is not available (${unavailableReason(state)}), so its tool ${upstreamName} cannot be changed; apply again when it is available`;
    }
    const suggestion = explainMisnamed(this.#tools.all, forward, upstreamName);
    return suggestion ?? `forward ${forward} has no tool with the upstream name ${upstreamName}`;
  }
}

/**
 * Explains that `upstreamName` is the current name of a tool instead of its upstream name; undefined when it is not.
 */
export function explainMisnamed(
  tools: readonly DiscoveredTool[],
  forward: string,
  upstreamName: string,
): string | undefined {
  const match = tools.find((tool) => tool.forward === forward && tool.name === upstreamName);
  return (
    match &&
    `forward ${forward} has no tool with the upstream name ${upstreamName}; use upstreamName ${match.upstreamName}`
  );
}

/** Explains that a tool is shadowed, and the remedy. */
export function explainShadowed({ forward, upstreamName, namespace, name }: ShadowedTool): string {
  return `tool ${upstreamName} of forward ${forward} is shadowed by another tool ${name} in namespace ${namespace}; rename that tool, or set a prefix for the forward`;
}

type ShadowedTool = Pick<DiscoveredTool, 'forward' | 'upstreamName' | 'namespace' | 'name'>;

/** Returns why a forward is not available, without the retry interval, which is outdated when the message is read. */
export function unavailableReason({ statusMessage = 'not discovered yet' }: Pick<Forward, 'statusMessage'>): string {
  return statusMessage.replace(/; retrying in [\d.]+ s/, '');
}
