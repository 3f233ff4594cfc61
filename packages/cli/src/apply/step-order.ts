import type { CurrentState } from './current-state.ts';
import type { DesiredState } from './desired-state.ts';
import { explainShadowed } from './discovered-tools.ts';
import type { ForwardPlan } from './plan-forwards.ts';
import { toolKey } from './plan-tools.ts';
import type { OverrideStep, Step } from './step.ts';

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

/**
 * Why a step cannot be done: its tool is `hidden` behind another of its name, or the name that it needs is `taken`.
 * `forward` brought the tool in the way; undefined for one made by hand.
 */
export interface NameConflict {
  readonly kind: 'hidden' | 'taken';
  readonly forward: string | undefined;
}

/** Who has or will have which name, and which step makes them give it up. */
export class NameClaims {
  /** By key of a tool, who claims it: the one that is served, then those that it shadows. */
  readonly #claimants = new Map<string, string[]>();
  /** By claimant, the index of the step. */
  readonly #releasedBy = new Map<string, number>();
  /** By claimant, what the service has already. */
  readonly #existing = new Map<string, Pick<NameConflict, 'forward'>>();
  readonly #steps: readonly Step[];
  readonly #forwards: ForwardPlan;

  constructor(steps: readonly Step[], { manual, discovered }: CurrentState, forwards: ForwardPlan) {
    this.#steps = steps;
    this.#forwards = forwards;
    for (const { namespace, name } of manual) {
      const own = claimantKey('tool', namespace, name);
      this.#existing.set(own, { forward: undefined });
      this.#claim(toolKey(namespace, name), own);
    }
    const byForward = new Map<string, string[]>();
    for (const { forward, upstreamName, namespace, name } of discovered) {
      const own = claimantKey('discovered', forward, upstreamName);
      this.#existing.set(own, { forward });
      this.#claim(toolKey(namespace, name), own);
      const brought = byForward.get(forward);
      if (brought) brought.push(own);
      else byForward.set(forward, [own]);
    }
    for (const name of forwards.result.keys()) {
      for (const step of steps) {
        const arrives = step.kind === 'override' && step.forward === name && forwards.registered.has(name);
        if (arrives) this.#claim(toolKey(step.namespace, step.name), this.#claimantOf(step));
      }
    }
    steps.forEach((step, index) => {
      const gives = (own: string): unknown => this.#releasedBy.set(own, index);
      if (step.kind === 'tool' && step.action === 'delete') gives(claimantKey('tool', step.namespace, step.name));
      if (step.kind === 'forward' && step.action !== 'create') byForward.get(step.name)?.forEach(gives);
      if (step.kind === 'override' && this.targetKey(step) !== toolKey(step.namespace, step.name)) {
        gives(this.#claimantOf(step));
      }
    });
  }

  /** Indexes of the steps that have to come first; of those that claim one name in the order in which they hold it. */
  prerequisites(step: Step): number[] {
    const { holders, takers } = this.#blockers(step);
    return [...holders, ...takers].map((own) => this.#releasedBy.get(own)).filter((index) => index !== undefined);
  }

  /**
   * Who is in front of the step and stays, so that it cannot be done: of what the service has, not of what is yet to
   * come. Undefined when nobody is.
   */
  conflict(step: Step): NameConflict | undefined {
    const { holders, takers } = this.#blockers(step);
    const stays = (own: string) => this.#existing.has(own) && !this.#releasedBy.has(own);
    const hiding = this.#existing.get(holders.find(stays) ?? '');
    if (hiding) return { kind: 'hidden', ...hiding };
    const taking = this.#existing.get(takers.find(stays) ?? '');
    return taking && { kind: 'taken', ...taking };
  }

  /**
   * Claimants that have to give up a name before the step: `holders` that of the tool, which is shadowed until then and
   * cannot be changed, `takers` the one that it is to have.
   */
  #blockers(step: Step): { readonly holders: readonly string[]; readonly takers: readonly string[] } {
    if (step.kind === 'tool' && step.action === 'create') {
      return { holders: [], takers: this.#claimantsOf(toolKey(step.namespace, step.name)) };
    }
    if (step.kind !== 'override') return { holders: [], takers: [] };
    const own = this.#claimantOf(step);
    const present = toolKey(step.namespace, step.name);
    const claimants = this.#claimantsOf(present);
    const holders = claimants.slice(0, Math.max(0, claimants.indexOf(own)));
    const target = this.targetKey(step);
    return { holders, takers: target === present ? [] : this.#claimantsOf(target).filter((other) => other !== own) };
  }

  /** The key that the tool will have. */
  targetKey(step: OverrideStep): string {
    const { namespace, name } = this.destination(step);
    return toolKey(namespace, name);
  }

  /** Where the tool will be, and what it will be called there. */
  destination({ forward, upstreamName, wanted }: OverrideStep): { readonly namespace: string; readonly name: string } {
    const { namespace = '', prefix = '' } = this.#forwards.result.get(forward) ?? {};
    return { namespace: wanted.namespace ?? namespace, name: wanted.name ?? prefix + upstreamName };
  }

  /** A name in the namespace that nobody has or is to have. */
  freeName(namespace: string, name: string): string {
    const targets = new Set(this.#steps.flatMap((step) => (step.kind === 'override' ? [this.targetKey(step)] : [])));
    let free = `${name}.moving`;
    while (targets.has(toolKey(namespace, free)) || this.#claimants.has(toolKey(namespace, free))) free += '.moving';
    this.#claim(toolKey(namespace, free), claimantKey('parked', namespace, free));
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
    return claimantKey(this.#forwards.registered.has(forward) ? 'arriving' : 'discovered', forward, upstreamName);
  }
}

function claimantKey(...parts: readonly string[]): string {
  return JSON.stringify(parts);
}

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
