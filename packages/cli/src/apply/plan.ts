import { Failure } from '../failure.ts';
import type { CurrentState } from './actual.ts';
import { NameClaims } from './claims.ts';
import { findConflicts } from './conflicts.ts';
import type { DesiredState, Section } from './desired.ts';
import { orderSteps } from './order.ts';
import { planForwards } from './plan-forwards.ts';
import { planNamespaceDeletions, planNamespaces, resultingNamespaces } from './plan-namespaces.ts';
import { planServices } from './plan-services.ts';
import { planManualTools, planOverrides } from './plan-tools.ts';
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
export function plan(desired: DesiredState, actual: CurrentState, { prune }: PlanOptions): Step[] {
  const pruned = (section: Section): boolean => prune && desired.sections.has(section);
  const problems: string[] = [];
  const services = planServices(desired, actual, pruned('services'));
  const forwards = planForwards(desired, actual, pruned('forwards'));
  const manual = planManualTools(desired, actual, pruned('tools'));
  const overrides = planOverrides(desired, actual, forwards, pruned('tools'), problems);
  const steps = [...manual.upserts, ...forwards.upserts, ...overrides, ...manual.deletions, ...forwards.deletions];
  const claims = new NameClaims(steps, actual, forwards);
  // What the files say twice is in its own way too: told once.
  if (problems.length === 0) problems.push(...findConflicts(steps, desired, claims));
  const [first, ...others] = problems;
  if (first !== undefined && others.length === 0) throw new Failure(first);
  if (first !== undefined) throw new Failure(`${problems.length} problems`, { notes: problems });

  const ordered = orderSteps(steps, claims);
  const namespaces = resultingNamespaces(desired, actual, forwards, pruned('namespaces'));
  const before = [...planNamespaces(namespaces, actual), ...services.upserts, ...ordered, ...services.deletions];
  return [...before, ...(pruned('namespaces') ? planNamespaceDeletions(namespaces, actual, before, forwards) : [])];
}
