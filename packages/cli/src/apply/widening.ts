import type { CurrentState } from './current-state.ts';
import type { ForwardPlan } from './plan-forwards.ts';
import { toolKey } from './plan-tools.ts';
import type { Change, Step } from './step.ts';

/**
 * Adds how a step widens the reach of agents: what they can use, or what evaluators keep them from. `actual` is the state before
 * the plan. In doubt, a change widens it; a new entry does not.
 */
export function markWidening(step: Step, actual: CurrentState, forwards: ForwardPlan): Step {
  const widens = [...(step.widens ?? []), ...wideningOf(step, actual, forwards)];
  return widens.length === 0 ? step : { ...step, widens };
}

function wideningOf(step: Step, actual: CurrentState, forwards: ForwardPlan): string[] {
  switch (step.kind) {
    case 'evaluator':
      if (step.action === 'delete') return ['removes an evaluator'];
      return step.action === 'update' && step.changes.some(isLoosening) ? ['may loosen an evaluator'] : [];
    case 'tool':
      if (step.action === 'create') return [];
      return [...changedReach(step.changes), ...(step.action === 'delete' ? revealed([step], actual) : [])];
    case 'forward': {
      if (step.action !== 'delete') return [];
      return revealed(
        actual.discovered.filter(({ forward }) => forward === step.name),
        actual,
      );
    }
    case 'override': {
      if (forwards.registered.has(step.forward)) return [];
      // A mark that waits for the tool is not known.
      const enables = step.wanted.enabled === true && !isKnown(step, actual);
      const frees = step.changes.some(({ member }) => member === 'name' || member === 'namespace');
      return [
        ...changedReach(step.changes),
        ...(enables ? ['enables it'] : []),
        ...(frees ? revealed([step], actual) : []),
      ];
    }
    default:
      return [];
  }
}

function isKnown(
  { forward, upstreamName }: Extract<Step, { kind: 'override' }>,
  { discovered }: CurrentState,
): boolean {
  return discovered.some((tool) => tool.forward === forward && tool.upstreamName === upstreamName);
}

function changedReach(changes: readonly Change[]): string[] {
  return changes.flatMap(({ member, from, to }) => {
    if (member === 'enabled' && to === true) return ['enables it'];
    return member === 'namespace' && from !== undefined && to !== undefined ? [`moves it to namespace ${to}`] : [];
  });
}

/** Tools that are shadowed at a name which becomes free. */
function revealed(
  freed: readonly { readonly namespace: string; readonly name: string }[],
  { discovered }: CurrentState,
): string[] {
  const keys = new Set(freed.map(({ namespace, name }) => toolKey(namespace, name)));
  return discovered
    .filter(({ shadowed, namespace, name }) => shadowed && keys.has(toolKey(namespace, name)))
    .map(({ name, forward }) => `makes the shadowed tool ${name} of forward ${forward} available`);
}

/** Changes of evaluators that let no request pass which was rejected before. */
function isLoosening({ member, to }: Change): boolean {
  if (member === 'position') return false;
  if (member === 'on_error') return to !== 'block';
  // Without a namespace it evaluates the requests of all.
  return member !== 'trigger.namespace' || to !== undefined;
}
