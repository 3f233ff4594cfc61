import type { NameClaims } from './claims.ts';
import type { Step } from './step.ts';

/**
 * Steps about tools and forwards in an order in which every name is free when something is to have it: a step that waits
 * for a name comes right after the one that gives it up. Apart from that they keep their order. Where names go round in
 * a circle, one of the tools gets another name for the meantime, by a step of its own.
 */
export function orderSteps(steps: readonly Step[], claims: NameClaims): Step[] {
  return new StepOrdering(steps, claims).run();
}

class StepOrdering {
  readonly #steps: readonly Step[];
  readonly #claims: NameClaims;
  readonly #blockedBy: Set<number>[];
  readonly #blocks: number[][];
  readonly #placed: Step[] = [];
  readonly #done = new Set<number>();
  /** Steps up to here have had their turn. */
  #current = 0;

  constructor(steps: readonly Step[], claims: NameClaims) {
    this.#steps = steps;
    this.#claims = claims;
    this.#blockedBy = steps.map((step) => new Set(claims.prerequisites(step)));
    this.#blocks = steps.map(() => []);
    this.#blockedBy.forEach((first, index) => {
      for (const other of first) this.#blocks[other]?.push(index);
    });
  }

  run(): Step[] {
    for (this.#current = 0; this.#current < this.#steps.length; this.#current++) this.#place(this.#current);
    // What is left now goes round in circles, or waits for what does.
    for (let index = 0; index < this.#steps.length; index++) {
      while (!this.#done.has(index)) this.#renameTemporarily(this.#findCycle(index));
    }
    return this.#placed;
  }

  /** Places the step when it waits for nothing, and then those that have had their turn and waited for it. */
  #place(index: number): void {
    const ready = [index];
    for (let next = ready.shift(); next !== undefined; next = ready.shift()) {
      const step = this.#steps[next];
      if (!step || this.#done.has(next) || this.#blockedBy[next]?.size !== 0) continue;
      this.#done.add(next);
      this.#placed.push(step);
      ready.push(...this.#release(next));
    }
  }

  /** Nobody waits for this step any more; those that have had their turn already are returned. */
  #release(index: number): number[] {
    const waiting = this.#blocks[index] ?? [];
    for (const other of waiting) this.#blockedBy[other]?.delete(index);
    return waiting.filter((other) => other <= this.#current);
  }

  /**
   * A step that waits for itself in the end. What others wait for first holds the name that they wait for, so that its
   * tool is not shadowed and can be changed.
   */
  #findCycle(index: number): number {
    const seen = new Set<number>();
    let at = index;
    for (; !seen.has(at); at = this.#firstBlocker(at)) seen.add(at);
    return at;
  }

  #firstBlocker(index: number): number {
    for (const first of this.#blockedBy[index] ?? []) return first;
    return index;
  }

  #renameTemporarily(index: number): void {
    const step = this.#steps[index];
    if (step?.kind !== 'override') throw new Error('only discovered tools give up one name for another');
    const { name, namespace, wanted } = step;
    const meanwhile = this.#claims.freeName(namespace, name);
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
