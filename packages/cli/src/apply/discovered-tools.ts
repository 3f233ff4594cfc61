import type { Forward, Labels } from '@sluice/contract';
import { type Client, unwrap } from '@sluice/contract/client';
import { equal } from '@sluice/protocol/json/equal';
import type { JsonObject } from '@sluice/protocol/json/parse';
import { Failure } from '../failure.ts';
import { type DiscoveredTool, readTools } from './current-state.ts';
import type { Overrides } from './desired-state.ts';
import { type Change, diffMembers, type OverrideStep } from './step.ts';

/** What a forward decides of its tools: where they are and how they are called unless somebody says otherwise. */
export interface ForwardDefaults {
  readonly namespace: string;
  readonly prefix: string;
}

/** The whole of a discovered tool that a PUT sets, `uri` and `toolType` being its forward's. */
export interface EffectiveTool {
  readonly name: string;
  readonly namespace: string;
  readonly labels: Labels;
  readonly members: JsonObject;
}

/** Takes every change of an operator back. */
export const NO_OVERRIDES: Overrides = { name: undefined, namespace: undefined, labels: {}, members: {} };

/**
 * What a discovered tool will be once `wanted` is put on it: the members that are wanted, and for all others the
 * upstream's own (decisions 2.5).
 */
export function applyOverrides(wanted: Overrides, tool: DiscoveredTool, home: ForwardDefaults): EffectiveTool {
  const { upstream } = tool;
  const members = new Map(Object.entries(upstream));
  for (const [member, value] of Object.entries(wanted.members)) {
    const theirs = members.get(member);
    // The service takes a number for equal that lost its spelling on the way, and keeps the upstream's.
    if (value !== null && theirs !== undefined && equal(value, theirs)) continue;
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
    members: Object.fromEntries(members),
  };
}

/** What changes on a discovered tool when it becomes that. */
export function toolChanges({ name, namespace, labels, members }: DiscoveredTool, next: EffectiveTool): Change[] {
  return diffMembers({ name, namespace, labels, ...members }, flattenTool(next));
}

/** All of it as one map of members. */
export function flattenTool({ name, namespace, labels, members }: EffectiveTool): JsonObject {
  return { name, namespace, labels, ...members };
}

/** Labels that the service sets itself and that no PUT changes (decisions 2.6). */
export function isServiceLabel(label: string): boolean {
  return label.startsWith('service.') && label !== 'service.forward_headers';
}

/** Which tool of which upstream: what stays the same whatever a discovered tool is called. */
interface Origin {
  readonly forward: string;
  readonly upstreamName: string;
}

/** Things about discovered tools by where they come from. Of several of one origin the first counts. */
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

  /** Puts this one in the place of that of its origin. */
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

/** Finds discovered tools while names change. Asks the service only when it has to. */
export class ToolLookup {
  readonly #client: Client;
  #tools: ToolsByOrigin<DiscoveredTool>;
  #current = true;

  constructor(client: Client, tools: readonly DiscoveredTool[]) {
    this.#client = client;
    this.#tools = new ToolsByOrigin(tools);
  }

  /** Something happened that may show in tools: those that are missing or shadowed are looked for anew. */
  invalidate(): void {
    this.#current = false;
  }

  /** Nothing that is known of a forward's tools holds any more. */
  forgetForward(forward: string): void {
    this.#tools = new ToolsByOrigin(this.#tools.all.filter((tool) => tool.forward !== forward));
    this.#current = false;
  }

  /** The tool is like this now. */
  update(tool: DiscoveredTool): void {
    this.#tools.replace(tool);
    this.#current = false;
  }

  /** The tool of a step, as it is now. Throws {@link Failure} that says why it is not there, or cannot be changed. */
  async find({ forward, upstreamName, position }: OverrideStep): Promise<DiscoveredTool> {
    let tool = this.#tools.find(forward, upstreamName);
    if ((!tool || tool.shadowed) && !this.#current) {
      this.#tools = new ToolsByOrigin((await readTools(this.#client)).discovered);
      this.#current = true;
      tool = this.#tools.find(forward, upstreamName);
    }
    if (tool && !tool.shadowed) return tool;
    const why = tool ? explainShadowed(tool) : await this.#explainMissing(forward, upstreamName);
    throw new Failure(position ? `${position()}: ${why}` : why);
  }

  async #explainMissing(forward: string, upstreamName: string): Promise<string> {
    const state = await unwrap(this.#client.GET('/api/v1/forwards/{name}', { params: { path: { name: forward } } }));
    if (!state.available) {
      return `forward ${forward} is not available (${unavailableReason(state)}), so that its tool ${upstreamName} is not known; apply again when it is`;
    }
    const meant = explainMisnamed(this.#tools.all, forward, upstreamName);
    return meant ?? `forward ${forward} has no tool that its upstream calls ${upstreamName}`;
  }
}

/** That a tool is named by what it is called here, where the upstream's name is asked for; undefined when it is not. */
export function explainMisnamed(
  tools: readonly DiscoveredTool[],
  forward: string,
  upstreamName: string,
): string | undefined {
  const meant = tools.find((tool) => tool.forward === forward && tool.name === upstreamName);
  return (
    meant &&
    `forward ${forward} has no tool ${upstreamName}; its upstream calls that one ${meant.upstreamName}: give it as upstreamName`
  );
}

/** That a tool cannot be changed because another one has its name, and what to do. */
export function explainShadowed({ forward, upstreamName, namespace, name }: ShadowedTool): string {
  return `tool ${upstreamName} of forward ${forward} cannot be changed: another tool is called ${name} in namespace ${namespace}; rename that one, or give the forward a prefix`;
}

type ShadowedTool = Pick<DiscoveredTool, 'forward' | 'upstreamName' | 'namespace' | 'name'>;

/** Why a forward is not available. When the service tries again itself is of no use to who reads it later. */
export function unavailableReason({ statusMessage = 'not asked yet' }: Pick<Forward, 'statusMessage'>): string {
  return statusMessage.replace(/; retrying in [\d.]+ s/, '');
}
