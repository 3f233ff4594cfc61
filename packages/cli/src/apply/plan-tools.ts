import type { CurrentState, DiscoveredTool } from './current-state.ts';
import type { DesiredOverrides, DesiredState, Overrides } from './desired-state.ts';
import {
  applyOverrides,
  explainMisnamed,
  type ForwardDefaults,
  flattenTool,
  NO_OVERRIDES,
  ToolsByOrigin,
  toolChanges,
} from './discovered-tools.ts';
import type { ForwardPlan } from './plan-forwards.ts';
import { diffMembers, initialMembers, type PlannedSteps, type Step } from './step.ts';

/** What to do with hand-made tools. Namespace and name are their key: with another one a tool is another tool. */
export function planManualTools({ tools }: DesiredState, { manual }: CurrentState, prune: boolean): PlannedSteps {
  const known = new Map(manual.map((tool) => [toolKey(tool.namespace, tool.name), tool]));
  const upserts = tools.flatMap(({ namespace, name, members }): Step[] => {
    const before = known.get(toolKey(namespace, name));
    const changes = before ? diffMembers(before.members, members) : initialMembers(members);
    if (changes.length === 0) return [];
    return [{ kind: 'tool', action: before ? 'update' : 'create', namespace, name, members, changes, notes: [] }];
  });
  const named = new Set(tools.map(({ namespace, name }) => toolKey(namespace, name)));
  const deletions = prune ? manual.filter(({ namespace, name }) => !named.has(toolKey(namespace, name))) : [];
  return {
    upserts,
    deletions: deletions.map(({ namespace, name }) => ({
      kind: 'tool',
      action: 'delete',
      namespace,
      name,
      changes: [],
      notes: [],
    })),
  };
}

/**
 * What to do with discovered tools. Nothing is known yet of those that a forward of the plan will bring: what the files
 * say of them is planned as it stands. Adds to `problems` what cannot be.
 */
export function planOverrides(
  desired: DesiredState,
  actual: CurrentState,
  forwards: ForwardPlan,
  prune: boolean,
  problems: string[],
): Step[] {
  const tools = new ToolsByOrigin(actual.discovered);
  const keys = new Map(desired.tools.map(({ namespace, name, position }) => [toolKey(namespace, name), position]));
  const steps: Step[] = [];
  for (const wanted of desired.overrides) {
    const home = forwards.result.get(wanted.forward);
    if (!home) {
      const why = forwards.deleted.has(wanted.forward) ? 'is not in the files, so that it goes' : 'is not known';
      problems.push(`${wanted.position()}: tools: forward ${wanted.forward} ${why}`);
      continue;
    }
    const key = toolKey(wanted.namespace ?? home.namespace, wanted.name ?? home.prefix + wanted.upstreamName);
    const holder = keys.get(key);
    if (holder) problems.push(`${wanted.position()}: tools: its name is given to another tool at ${holder()}`);
    else keys.set(key, wanted.position);
    const tool = forwards.registered.has(wanted.forward) ? undefined : tools.find(wanted.forward, wanted.upstreamName);
    if (tool) {
      steps.push(...overrideSteps(tool, wanted, home, wanted.position));
      continue;
    }
    const undiscovered = undiscoveredSteps(wanted, home, forwards);
    const known = undiscovered.length === 0 || forwards.registered.has(wanted.forward) ? [] : tools.all;
    const mistake = explainMisnamed(known, wanted.forward, wanted.upstreamName);
    if (mistake === undefined) steps.push(...undiscovered);
    else problems.push(`${wanted.position()}: tools: ${mistake}`);
  }
  if (!prune) return steps;
  const named = new ToolsByOrigin(desired.overrides);
  const unnamed = tools.all.filter((tool) => !named.find(tool.forward, tool.upstreamName));
  return [
    ...steps,
    ...unnamed.flatMap((tool) => {
      const home = forwards.registered.has(tool.forward) ? undefined : forwards.result.get(tool.forward);
      if (!home) return [];
      const { forward, namespace, name, upstreamName } = tool;
      const key = toolKey(home.namespace, home.prefix + upstreamName);
      const holder = key === toolKey(namespace, name) ? undefined : keys.get(key);
      if (holder) {
        const other = `tool ${upstreamName} of forward ${forward}`;
        problems.push(`${holder()}: tools: ${other} gets its name back, which is this one; say what that is called`);
      }
      return overrideSteps(tool, NO_OVERRIDES, home, undefined);
    }),
  ];
}

/** The key of a tool as one text (decisions 2.2). */
export function toolKey(namespace: string, name: string): string {
  return JSON.stringify([namespace, name]);
}

function overrideSteps(
  tool: DiscoveredTool,
  wanted: Overrides,
  home: ForwardDefaults,
  position: DesiredOverrides['position'] | undefined,
): Step[] {
  const changes = toolChanges(tool, applyOverrides(wanted, tool, home));
  const { forward, upstreamName, name, namespace } = tool;
  if (changes.length === 0) return [];
  return [
    {
      kind: 'override',
      action: 'update',
      forward,
      upstreamName,
      name,
      namespace,
      wanted,
      position,
      changes,
      notes: [],
    },
  ];
}

/** For a tool that is not there, and may be once the forward is. */
function undiscoveredSteps(wanted: DesiredOverrides, home: ForwardDefaults, forwards: ForwardPlan): Step[] {
  const { forward, upstreamName, position } = wanted;
  const arrives = { name: home.prefix + upstreamName, namespace: home.namespace };
  const { name = arrives.name, namespace = arrives.namespace, labels, members } = wanted;
  const changes = diffMembers({ ...arrives, labels: {} }, flattenTool({ name, namespace, labels, members }));
  if (changes.length === 0) return [];
  const notes = forwards.registered.has(forward) ? [] : ['the forward has no such tool at present'];
  return [{ kind: 'override', action: 'update', forward, upstreamName, ...arrives, wanted, position, changes, notes }];
}
