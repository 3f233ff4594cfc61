import type { Claims } from './claims.ts';
import type { Desired } from './desired.ts';
import { toolKey } from './plan-tools.ts';
import type { Step } from './step.ts';
import { shadowedBy } from './tool-finder.ts';

/** Steps that the service would refuse because of a tool that it has and that none of the steps moves, in words. */
export function conflicts(steps: readonly Step[], { tools }: Desired, claims: Claims): string[] {
  const places = new Map(tools.map(({ namespace, name, where }) => [toolKey(namespace, name), where]));
  return steps.flatMap((step) => {
    const obstacle = claims.obstacle(step);
    if (!obstacle || (step.kind !== 'override' && step.kind !== 'tool')) return [];
    const { namespace, name } = step.kind === 'override' ? claims.place(step) : step;
    const where = step.kind === 'override' ? step.where : places.get(toolKey(namespace, name));
    const hidden = step.kind === 'override' && obstacle.kind === 'hidden';
    const problem = hidden
      ? shadowedBy(step)
      : `the name ${name} in namespace ${namespace} is taken by ${remedy(obstacle.forward)}, or choose another name`;
    if (where) return [`${where()}: tools: ${problem}`];
    const whose = step.kind === 'override' ? ` of forward ${step.forward}` : '';
    return [`what was changed on tool ${step.name}${whose} cannot be taken back: ${problem}`];
  });
}

/** Whose tool is in the way, and how it gets out of it. */
function remedy(forward: string | undefined): string {
  return forward === undefined
    ? 'a tool made by hand, which stays; delete that one'
    : `a tool of forward ${forward}, which keeps it; rename that one too`;
}
