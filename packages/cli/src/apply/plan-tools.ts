import type { Actual, DiscoveredTool } from './actual.ts';
import type { Desired, Wanted, WantedOverrides } from './desired.ts';
import { DiscoveredTools } from './discovered-tools.ts';
import { effective, flat, NOTHING, overrideChanges, type ToolHome } from './effective.ts';
import type { ForwardPlan } from './plan-forwards.ts';
import { changesBetween, changesOfNew, type Step, type Steps } from './step.ts';
import { misnamed } from './tool-finder.ts';

/** What to do with hand-made tools. Namespace and name are their key: with another one a tool is another tool. */
export function planHandMade({ tools }: Desired, { handMade }: Actual, prune: boolean): Steps {
  const known = new Map(handMade.map((tool) => [toolKey(tool.namespace, tool.name), tool]));
  const made = tools.flatMap(({ namespace, name, members }): Step[] => {
    const before = known.get(toolKey(namespace, name));
    const changes = before ? changesBetween(before.members, members) : changesOfNew(members);
    if (changes.length === 0) return [];
    return [{ kind: 'tool', action: before ? 'update' : 'create', namespace, name, members, changes, notes: [] }];
  });
  const named = new Set(tools.map(({ namespace, name }) => toolKey(namespace, name)));
  const gone = prune ? handMade.filter(({ namespace, name }) => !named.has(toolKey(namespace, name))) : [];
  return {
    made,
    gone: gone.map(({ namespace, name }) => ({
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
  desired: Desired,
  actual: Actual,
  forwards: ForwardPlan,
  prune: boolean,
  problems: string[],
): Step[] {
  const tools = new DiscoveredTools(actual.discovered);
  const keys = new Map(desired.tools.map(({ namespace, name, where }) => [toolKey(namespace, name), where]));
  const steps: Step[] = [];
  for (const wanted of desired.overrides) {
    const home = forwards.after.get(wanted.forward);
    if (!home) {
      const why = forwards.deleted.has(wanted.forward) ? 'is not in the files, so that it goes' : 'is not known';
      problems.push(`${wanted.where()}: tools: forward ${wanted.forward} ${why}`);
      continue;
    }
    const key = toolKey(wanted.namespace ?? home.namespace, wanted.name ?? home.prefix + wanted.upstreamName);
    const holder = keys.get(key);
    if (holder) problems.push(`${wanted.where()}: tools: its name is given to another tool at ${holder()}`);
    else keys.set(key, wanted.where);
    const tool = forwards.fresh.has(wanted.forward) ? undefined : tools.find(wanted.forward, wanted.upstreamName);
    if (tool) {
      steps.push(...overrideSteps(tool, wanted, home, wanted.where));
      continue;
    }
    const unseen = unseenSteps(wanted, home, forwards);
    const known = unseen.length === 0 || forwards.fresh.has(wanted.forward) ? [] : tools.all;
    const mistake = misnamed(known, wanted.forward, wanted.upstreamName);
    if (mistake === undefined) steps.push(...unseen);
    else problems.push(`${wanted.where()}: tools: ${mistake}`);
  }
  if (!prune) return steps;
  const named = new DiscoveredTools(desired.overrides);
  const unnamed = tools.all.filter((tool) => !named.find(tool.forward, tool.upstreamName));
  return [
    ...steps,
    ...unnamed.flatMap((tool) => {
      const home = forwards.fresh.has(tool.forward) ? undefined : forwards.after.get(tool.forward);
      if (!home) return [];
      const { forward, namespace, name, upstreamName } = tool;
      const key = toolKey(home.namespace, home.prefix + upstreamName);
      const holder = key === toolKey(namespace, name) ? undefined : keys.get(key);
      if (holder) {
        const other = `tool ${upstreamName} of forward ${forward}`;
        problems.push(`${holder()}: tools: ${other} gets its name back, which is this one; say what that is called`);
      }
      return overrideSteps(tool, NOTHING, home, undefined);
    }),
  ];
}

/** The key of a tool as one text (decisions 2.2). */
export function toolKey(namespace: string, name: string): string {
  return JSON.stringify([namespace, name]);
}

function overrideSteps(
  tool: DiscoveredTool,
  wanted: Wanted,
  home: ToolHome,
  where: WantedOverrides['where'] | undefined,
): Step[] {
  const changes = overrideChanges(tool, effective(wanted, tool, home));
  const { forward, upstreamName, name, namespace } = tool;
  if (changes.length === 0) return [];
  return [
    { kind: 'override', action: 'update', forward, upstreamName, name, namespace, wanted, where, changes, notes: [] },
  ];
}

/** For a tool that is not there, and may be once the forward is. */
function unseenSteps(wanted: WantedOverrides, home: ToolHome, forwards: ForwardPlan): Step[] {
  const { forward, upstreamName, where } = wanted;
  const arrives = { name: home.prefix + upstreamName, namespace: home.namespace };
  const { name = arrives.name, namespace = arrives.namespace, labels, members } = wanted;
  const changes = changesBetween({ ...arrives, labels: {} }, flat({ name, namespace, labels, members }));
  if (changes.length === 0) return [];
  const notes = forwards.fresh.has(forward) ? [] : ['the forward has no such tool at present'];
  return [{ kind: 'override', action: 'update', forward, upstreamName, ...arrives, wanted, where, changes, notes }];
}
