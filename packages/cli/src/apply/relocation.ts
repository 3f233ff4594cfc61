import type { CurrentForward, CurrentState, DiscoveredTool } from './current-state.ts';

/** Namespace and prefix of a forward. */
export type Placement = Pick<CurrentForward, 'namespace' | 'prefix'>;

/** A change of a forward's namespace or prefix, which its entries follow. */
export interface Relocation {
  readonly from: Placement;
  readonly to: Placement;
}

/** The forward's relocation; undefined if both stay. */
export function relocationOf(from: Placement, to: Placement): Relocation | undefined {
  return from.namespace === to.namespace && from.prefix === to.prefix ? undefined : { from, to };
}

/** Where a tool is once its forward is relocated: one that was moved or renamed stays there, as in the service. */
export function relocated(tool: DiscoveredTool, relocation: Relocation | undefined): DiscoveredTool {
  if (!relocation) return tool;
  const { from, to } = relocation;
  const namespace = tool.namespace === from.namespace ? to.namespace : tool.namespace;
  const name = tool.name === from.prefix + tool.upstreamName ? to.prefix + tool.upstreamName : tool.name;
  if (namespace === tool.namespace && name === tool.name) return tool;
  // The service rejects the change if a name is in use.
  return { ...tool, namespace, name, shadowed: false };
}

/** The state once all forwards are relocated. */
export function relocatedState(state: CurrentState, relocations: ReadonlyMap<string, Relocation>): CurrentState {
  return {
    ...state,
    discovered: state.discovered.map((tool) => relocated(tool, relocations.get(tool.forward))),
    others: state.others.map((entry) => {
      const { from, to } = relocations.get(entry.forward ?? '') ?? {};
      return to && entry.namespace === from?.namespace ? { ...entry, namespace: to.namespace } : entry;
    }),
  };
}
