import type { NameClaims } from './claims.ts';
import type { DesiredState } from './desired.ts';
import { toolKey } from './plan-tools.ts';
import type { Step } from './step.ts';
import { explainShadowed } from './tool-finder.ts';

/** Steps that the service would refuse because of a tool that it has and that none of the steps moves, in words. */
export function findConflicts(steps: readonly Step[], { tools }: DesiredState, claims: NameClaims): string[] {
  const places = new Map(tools.map(({ namespace, name, position }) => [toolKey(namespace, name), position]));
  return steps.flatMap((step) => {
    const conflict = claims.conflict(step);
    if (!conflict || (step.kind !== 'override' && step.kind !== 'tool')) return [];
    const { namespace, name } = step.kind === 'override' ? claims.destination(step) : step;
    const position = step.kind === 'override' ? step.position : places.get(toolKey(namespace, name));
    const hidden = step.kind === 'override' && conflict.kind === 'hidden';
    const problem = hidden
      ? explainShadowed(step)
      : `the name ${name} in namespace ${namespace} is taken by ${resolutionHint(conflict.forward)}, or choose another name`;
    if (position) return [`${position()}: tools: ${problem}`];
    const whose = step.kind === 'override' ? ` of forward ${step.forward}` : '';
    return [`what was changed on tool ${step.name}${whose} cannot be taken back: ${problem}`];
  });
}

/** Whose tool is in the way, and how it gets out of it. */
function resolutionHint(forward: string | undefined): string {
  return forward === undefined
    ? 'a tool made by hand, which stays; delete that one'
    : `a tool of forward ${forward}, which keeps it; rename that one too`;
}
