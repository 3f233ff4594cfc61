import type { Forward } from '@sluice/contract';
import { type Client, unwrap } from '@sluice/contract/client';
import { Failure } from '../failure.ts';
import { type DiscoveredTool, readTools } from './actual.ts';
import { DiscoveredTools } from './discovered-tools.ts';
import type { OverrideStep } from './step.ts';

/** Finds discovered tools while names change. Asks the service only when it has to. */
export class ToolFinder {
  readonly #client: Client;
  #tools: DiscoveredTools<DiscoveredTool>;
  #current = true;

  constructor(client: Client, tools: readonly DiscoveredTool[]) {
    this.#client = client;
    this.#tools = new DiscoveredTools(tools);
  }

  /** Something happened that may show in tools: those that are missing or shadowed are looked for anew. */
  outdated(): void {
    this.#current = false;
  }

  /** Nothing that is known of a forward's tools holds any more. */
  forget(forward: string): void {
    this.#tools = new DiscoveredTools(this.#tools.all.filter((tool) => tool.forward !== forward));
    this.#current = false;
  }

  /** The tool is like this now. */
  changed(tool: DiscoveredTool): void {
    this.#tools.replace(tool);
    this.#current = false;
  }

  /** The tool of a step, as it is now. Throws {@link Failure} that says why it is not there, or cannot be changed. */
  async find({ forward, upstreamName, where }: OverrideStep): Promise<DiscoveredTool> {
    let tool = this.#tools.find(forward, upstreamName);
    if ((!tool || tool.shadowed) && !this.#current) {
      this.#tools = new DiscoveredTools((await readTools(this.#client)).discovered);
      this.#current = true;
      tool = this.#tools.find(forward, upstreamName);
    }
    if (tool && !tool.shadowed) return tool;
    const why = tool ? shadowedBy(tool) : await this.#absence(forward, upstreamName);
    throw new Failure(where ? `${where()}: ${why}` : why);
  }

  async #absence(forward: string, upstreamName: string): Promise<string> {
    const state = await unwrap(this.#client.GET('/api/v1/forwards/{name}', { params: { path: { name: forward } } }));
    if (!state.available) {
      return `forward ${forward} is not available (${whyUnavailable(state)}), so that its tool ${upstreamName} is not known; apply again when it is`;
    }
    const meant = misnamed(this.#tools.all, forward, upstreamName);
    return meant ?? `forward ${forward} has no tool that its upstream calls ${upstreamName}`;
  }
}

/** That a tool is named by what it is called here, where the upstream's name is asked for; undefined when it is not. */
export function misnamed(tools: readonly DiscoveredTool[], forward: string, upstreamName: string): string | undefined {
  const meant = tools.find((tool) => tool.forward === forward && tool.name === upstreamName);
  return (
    meant &&
    `forward ${forward} has no tool ${upstreamName}; its upstream calls that one ${meant.upstreamName}: give it as upstreamName`
  );
}

/** That a tool cannot be changed because another one has its name, and what to do. */
export function shadowedBy({ forward, upstreamName, namespace, name }: Hidden): string {
  return `tool ${upstreamName} of forward ${forward} cannot be changed: another tool is called ${name} in namespace ${namespace}; rename that one, or give the forward a prefix`;
}

type Hidden = Pick<DiscoveredTool, 'forward' | 'upstreamName' | 'namespace' | 'name'>;

/** Why a forward is not available. When the service tries again itself is of no use to who reads it later. */
export function whyUnavailable({ statusMessage = 'not asked yet' }: Pick<Forward, 'statusMessage'>): string {
  return statusMessage.replace(/; retrying in [\d.]+ s/, '');
}
