import { Failure } from '../failure.ts';
import type { Actual } from './actual.ts';
import { Claims } from './claims.ts';
import { conflicts } from './conflicts.ts';
import type { Desired, Section } from './desired.ts';
import { inOrder } from './order.ts';
import { planForwards } from './plan-forwards.ts';
import { createNamespaces, namespacesAfter, removeNamespaces } from './plan-namespaces.ts';
import { planServices } from './plan-services.ts';
import { planHandMade, planOverrides } from './plan-tools.ts';
import type { Step } from './step.ts';

/** Settings of {@link plan}. */
export interface PlanOptions {
  /** Of sections that the files have, what they do not name goes. */
  readonly prune: boolean;
}

/**
 * The steps that make the service what the files say, in the order in which they can be done; none when it is so
 * already. Things are made in the order namespaces, services, hand-made tools, forwards, discovered tools, and go in the
 * reverse one; what gives up a name that something else is to have goes before that.
 *
 * Throws {@link Failure} with everything in the files that cannot be made so.
 */
export function plan(desired: Desired, actual: Actual, { prune }: PlanOptions): Step[] {
  const pruned = (section: Section): boolean => prune && desired.sections.has(section);
  const problems: string[] = [];
  const services = planServices(desired, actual, pruned('services'));
  const forwards = planForwards(desired, actual, pruned('forwards'));
  const handMade = planHandMade(desired, actual, pruned('tools'));
  const overrides = planOverrides(desired, actual, forwards, pruned('tools'), problems);
  const steps = [...handMade.made, ...forwards.made, ...overrides, ...handMade.gone, ...forwards.gone];
  const claims = new Claims(steps, actual, forwards);
  // What the files say twice is in its own way too: told once.
  if (problems.length === 0) problems.push(...conflicts(steps, desired, claims));
  const [first, ...others] = problems;
  if (first !== undefined && others.length === 0) throw new Failure(first);
  if (first !== undefined) throw new Failure(`${problems.length} problems`, { notes: problems });

  const made = inOrder(steps, claims);
  const namespaces = namespacesAfter(desired, actual, forwards, pruned('namespaces'));
  const before = [...createNamespaces(namespaces, actual), ...services.made, ...made, ...services.gone];
  return [...before, ...(pruned('namespaces') ? removeNamespaces(namespaces, actual, before, forwards) : [])];
}
