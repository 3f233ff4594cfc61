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

/** Plans the manually registered tools; namespace and name are their key. */
export function planManualTools({ tools }: DesiredState, { manual }: CurrentState, prune: boolean): PlannedSteps {
  const known = new Map(manual.map((tool) => [toolKey(tool.namespace, tool.name), tool]));
  const upserts = tools.flatMap(({ namespace, name, members }): Step[] => {
    const before = known.get(toolKey(namespace, name));
    // The file need not contain it, and leaves it unchanged then.
    const enabled = before?.members.enabled;
    const wanted = enabled === undefined ? members : { enabled, ...members };
    const changes = before ? diffMembers(before.members, wanted) : initialMembers(members);
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
 * Plans the overrides of discovered tools. Tools of a forward that the plan registers are unknown; their overrides are
 * planned as written. `actual` is the state once the forwards are relocated. Adds inapplicable members to `problems`.
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
    const forward = forwards.result.get(wanted.forward);
    if (!forward) {
      const reason = forwards.deleted.has(wanted.forward)
        ? 'is not in the files and would be deleted'
        : 'does not exist';
      problems.push(`${wanted.position()}: tools: forward ${wanted.forward} ${reason}`);
      continue;
    }
    const key = toolKey(wanted.namespace ?? forward.namespace, wanted.name ?? forward.prefix + wanted.upstreamName);
    const conflictPosition = keys.get(key);
    if (conflictPosition) problems.push(`${wanted.position()}: tools: name is already used at ${conflictPosition()}`);
    else keys.set(key, wanted.position);
    const isUncertain = forwards.isUncertain(wanted.forward);
    const tool = forwards.registered.has(wanted.forward) ? undefined : tools.find(wanted.forward, wanted.upstreamName);
    if (tool) {
      steps.push(...overrideSteps(tool, wanted, forward, wanted.position, isUncertain));
      continue;
    }
    const undiscovered = undiscoveredSteps(wanted, forward, forwards);
    const isKnown = undiscovered.length > 0 && !isUncertain;
    const known = isKnown ? tools.all : [];
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
      const definition = forwards.registered.has(tool.forward) ? undefined : forwards.result.get(tool.forward);
      if (!definition) return [];
      const { forward, namespace, name, upstreamName } = tool;
      const key = toolKey(definition.namespace, definition.prefix + upstreamName);
      const conflictPosition = key === toolKey(namespace, name) ? undefined : keys.get(key);
      if (conflictPosition) {
        const other = `tool ${upstreamName} of forward ${forward}`;
        problems.push(`${conflictPosition()}: tools: ${other} would get this name back; set its name in the file`);
      }
      return overrideSteps(tool, NO_OVERRIDES, definition, undefined, forwards.isUncertain(forward));
    }),
  ];
}

/** Returns the key of a tool as a string. */
export function toolKey(namespace: string, name: string): string {
  return JSON.stringify([namespace, name]);
}

function overrideSteps(
  tool: DiscoveredTool,
  wanted: Overrides,
  home: ForwardDefaults,
  position: DesiredOverrides['position'] | undefined,
  isUncertain: boolean,
): Step[] {
  const changes = toolChanges(tool, applyOverrides(wanted, tool, home));
  const { forward, upstreamName, name, namespace } = tool;
  const isOverridden = toolChanges(tool, applyOverrides(NO_OVERRIDES, tool, home)).length > 0;
  // At another address, the upstream's own values may differ.
  if (changes.length === 0 && !(isUncertain && (position || isOverridden))) return [];
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

/** Steps for a tool that may exist once the forward is available. */
function undiscoveredSteps(wanted: DesiredOverrides, home: ForwardDefaults, forwards: ForwardPlan): Step[] {
  const { forward, upstreamName, position } = wanted;
  const arrives = { name: home.prefix + upstreamName, namespace: home.namespace };
  const { name = arrives.name, namespace = arrives.namespace, labels, enabled = true, members } = wanted;
  const before = flattenTool({ ...arrives, labels: {}, enabled: true, members: {} });
  const changes = diffMembers(before, flattenTool({ name, namespace, labels, enabled, members }));
  if (changes.length === 0) return [];
  const notes = forwards.registered.has(forward) ? [] : ['the forward has no such tool at the moment'];
  return [{ kind: 'override', action: 'update', forward, upstreamName, ...arrives, wanted, position, changes, notes }];
}
