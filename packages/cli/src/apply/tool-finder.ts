import type { Forward } from '@sluice/contract';
import { type Client, unwrap } from '@sluice/contract/client';
import { Failure } from '../failure.ts';
import { type DiscoveredTool, readTools } from './actual.ts';
import { ToolsByOrigin } from './discovered-tools.ts';
import type { OverrideStep } from './step.ts';

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
