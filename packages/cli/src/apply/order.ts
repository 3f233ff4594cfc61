import type { Actual } from './actual.ts';
import type { ForwardPlan } from './plan-forwards.ts';
import { toolKey } from './plan-tools.ts';
import type { OverrideStep, Step } from './step.ts';

/**
 * Steps about tools and forwards in an order in which every name is free when something is to have it: a step that waits
 * for a name comes right after the one that gives it up. Apart from that they keep their order. Where names go round in
 * a circle, one of the tools gets another name for the meantime, by a step of its own.
 */
export function inOrder(steps: readonly Step[], actual: Actual, forwards: ForwardPlan): Step[] {
  return new Ordering(steps, new Claims(steps, actual, forwards)).run();
}

/** Who has or will have which name, and which step makes them give it up. */
class Claims {
  /** By key of a tool, who claims it: the one that is served, then those that it shadows. */
  readonly #claimants = new Map<string, string[]>();
  /** By claimant, the index of the step. */
  readonly #givenUpBy = new Map<string, number>();
  readonly #steps: readonly Step[];
  readonly #forwards: ForwardPlan;

  constructor(steps: readonly Step[], { handMade, discovered }: Actual, forwards: ForwardPlan) {
    this.#steps = steps;
    this.#forwards = forwards;
    for (const { namespace, name } of handMade)
      this.#claim(toolKey(namespace, name), claimant('tool', namespace, name));
    const byForward = new Map<string, string[]>();
    for (const { forward, upstreamName, namespace, name } of discovered) {
      const own = claimant('discovered', forward, upstreamName);
      this.#claim(toolKey(namespace, name), own);
      const brought = byForward.get(forward);
      if (brought) brought.push(own);
      else byForward.set(forward, [own]);
    }
    for (const name of forwards.after.keys()) {
      for (const step of steps) {
        const arrives = step.kind === 'override' && step.forward === name && forwards.fresh.has(name);
        if (arrives) this.#claim(toolKey(step.namespace, step.name), this.#claimantOf(step));
      }
    }
    steps.forEach((step, index) => {
      const gives = (own: string): unknown => this.#givenUpBy.set(own, index);
      if (step.kind === 'tool' && step.action === 'delete') gives(claimant('tool', step.namespace, step.name));
      if (step.kind === 'forward' && step.action !== 'create') byForward.get(step.name)?.forEach(gives);
      if (step.kind === 'override' && this.target(step) !== toolKey(step.namespace, step.name)) {
        gives(this.#claimantOf(step));
      }
    });
  }

  /** Indexes of the steps that have to come first; of those that claim one name in the order in which they hold it. */
  before(step: Step): number[] {
    if (step.kind === 'tool' && step.action === 'create') {
      return this.#freers(this.#claimantsOf(toolKey(step.namespace, step.name)));
    }
    if (step.kind !== 'override') return [];
    const own = this.#claimantOf(step);
    const present = toolKey(step.namespace, step.name);
    const claimants = this.#claimantsOf(present);
    // Until what stands before it is gone it is shadowed, and cannot be changed.
    const holders = this.#freers(claimants.slice(0, Math.max(0, claimants.indexOf(own))));
    if (this.target(step) === present) return holders;
    return [...holders, ...this.#freers(this.#claimantsOf(this.target(step)).filter((other) => other !== own))];
  }

  /** The key that the tool will have. */
  target({ forward, upstreamName, wanted }: OverrideStep): string {
    const { namespace = '', prefix = '' } = this.#forwards.after.get(forward) ?? {};
    return toolKey(wanted.namespace ?? namespace, wanted.name ?? prefix + upstreamName);
  }

  /** A name in the namespace that nobody has or is to have. */
  unclaimed(namespace: string, name: string): string {
    const targets = new Set(this.#steps.flatMap((step) => (step.kind === 'override' ? [this.target(step)] : [])));
    let free = `${name}.moving`;
    while (targets.has(toolKey(namespace, free)) || this.#claimants.has(toolKey(namespace, free))) free += '.moving';
    this.#claim(toolKey(namespace, free), claimant('parked', namespace, free));
    return free;
  }

  #claim(key: string, own: string): void {
    const claimants = this.#claimants.get(key);
    if (claimants) claimants.push(own);
    else this.#claimants.set(key, [own]);
  }

  #claimantsOf(key: string): readonly string[] {
    return this.#claimants.get(key) ?? [];
  }

  /** What a forward brings anew is not what it had. */
  #claimantOf({ forward, upstreamName }: OverrideStep): string {
    return claimant(this.#forwards.fresh.has(forward) ? 'arriving' : 'discovered', forward, upstreamName);
  }

  #freers(claimants: readonly string[]): number[] {
    return claimants.map((own) => this.#givenUpBy.get(own)).filter((index) => index !== undefined);
  }
}

function claimant(...parts: readonly string[]): string {
  return JSON.stringify(parts);
}

class Ordering {
  readonly #steps: readonly Step[];
  readonly #claims: Claims;
  readonly #waitsFor: Set<number>[];
  readonly #waiting: number[][];
  readonly #placed: Step[] = [];
  readonly #done = new Set<number>();
  /** Steps up to here have had their turn. */
  #turn = 0;

  constructor(steps: readonly Step[], claims: Claims) {
    this.#steps = steps;
    this.#claims = claims;
    this.#waitsFor = steps.map((step) => new Set(claims.before(step)));
    this.#waiting = steps.map(() => []);
    this.#waitsFor.forEach((first, index) => {
      for (const other of first) this.#waiting[other]?.push(index);
    });
  }

  run(): Step[] {
    for (this.#turn = 0; this.#turn < this.#steps.length; this.#turn++) this.#place(this.#turn);
    // What is left now goes round in circles, or waits for what does.
    for (let index = 0; index < this.#steps.length; index++) {
      while (!this.#done.has(index)) this.#park(this.#inCircle(index));
    }
    return this.#placed;
  }

  /** Places the step when it waits for nothing, and then those that have had their turn and waited for it. */
  #place(index: number): void {
    const ready = [index];
    for (let next = ready.shift(); next !== undefined; next = ready.shift()) {
      const step = this.#steps[next];
      if (!step || this.#done.has(next) || this.#waitsFor[next]?.size !== 0) continue;
      this.#done.add(next);
      this.#placed.push(step);
      ready.push(...this.#release(next));
    }
  }

  /** Nobody waits for this step any more; those that have had their turn already are returned. */
  #release(index: number): number[] {
    const waiting = this.#waiting[index] ?? [];
    for (const other of waiting) this.#waitsFor[other]?.delete(index);
    return waiting.filter((other) => other <= this.#turn);
  }

  /**
   * A step that waits for itself in the end. What others wait for first holds the name that they wait for, so that its
   * tool is not shadowed and can be changed.
   */
  #inCircle(index: number): number {
    const seen = new Set<number>();
    let at = index;
    for (; !seen.has(at); at = this.#firstOf(at)) seen.add(at);
    return at;
  }

  #firstOf(index: number): number {
    for (const first of this.#waitsFor[index] ?? []) return first;
    return index;
  }

  #park(index: number): void {
    const step = this.#steps[index];
    if (step?.kind !== 'override') throw new Error('only discovered tools give up one name for another');
    const { name, namespace, wanted } = step;
    const meanwhile = this.#claims.unclaimed(namespace, name);
    this.#placed.push({
      ...step,
      action: 'park',
      wanted: { ...wanted, name: meanwhile },
      changes: [{ member: 'name', from: name, to: meanwhile }],
      notes: ['for a moment, because another tool is to have its name'],
    });
    for (const other of this.#release(index)) this.#place(other);
  }
}
