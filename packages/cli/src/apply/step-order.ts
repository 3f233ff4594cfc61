import type { CurrentState, DiscoveredTool } from './current-state.ts';
import type { DesiredForward, DesiredState } from './desired-state.ts';
import { explainShadowed } from './discovered-tools.ts';
import type { ForwardPlan } from './plan-forwards.ts';
import { toolKey } from './plan-tools.ts';
import { relocated } from './relocation.ts';
import type { OverrideStep, Step } from './step.ts';

/**
 * Orders steps for tools and forwards so that every name is free when a step needs it: a step that waits for a name
 * follows the step that frees it. Otherwise the order is kept. Cycles are broken by renaming a tool temporarily.
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
  /** Steps up to this index have been visited. */
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
    // The remaining steps are part of a cycle or wait for one.
    for (let index = 0; index < this.#steps.length; index++) {
      while (!this.#done.has(index)) this.#renameTemporarily(this.#findCycle(index));
    }
    return this.#placed;
  }

  /** Places a step that is not blocked, and then visited steps that it blocked. */
  #place(index: number): void {
    const ready = [index];
    for (let next = ready.shift(); next !== undefined; next = ready.shift()) {
      const step = this.#steps[next];
      if (!step || this.#done.has(next) || this.#blockedBy[next]?.size !== 0) continue;
      this.#done.add(next);
      if (step.kind === 'forward') for (const detour of this.#claims.detours(step.name)) this.#rename(detour);
      this.#placed.push(step);
      ready.push(...this.#release(next));
    }
  }

  /** Unblocks the steps that wait for this one, or the given ones of them, and returns those that have been visited. */
  #release(index: number, waiting = this.#blocks[index] ?? []): number[] {
    for (const other of waiting) this.#blockedBy[other]?.delete(index);
    return waiting.filter((other) => other <= this.#current);
  }

  /**
   * Returns a step that transitively waits for itself, of a tool if there is one. The first blocker has the name that others
   * wait for, so its tool is not shadowed and can be changed.
   */
  #findCycle(index: number): number {
    const seen = new Set<number>();
    let at = index;
    for (; !seen.has(at); at = this.#firstBlocker(at)) seen.add(at);
    const cycle = [...seen].slice([...seen].indexOf(at));
    return cycle.find((other) => this.#steps[other]?.kind === 'override') ?? at;
  }

  #firstBlocker(index: number): number {
    for (const first of this.#blockedBy[index] ?? []) return first;
    return index;
  }

  #renameTemporarily(index: number): void {
    const step = this.#steps[index];
    if (step?.kind === 'forward' && step.action === 'update') {
      return this.#renameForwardTemporarily(index, step.name, step.forward);
    }
    if (step?.kind !== 'override') throw new Error('only discovered tools can be renamed temporarily');
    this.#rename(step);
    for (const other of this.#release(index)) this.#place(other);
  }

  #rename(step: OverrideStep): void {
    const { kind, forward, upstreamName, name, namespace, wanted, position } = step;
    const temporary = this.#claims.freeName(namespace, name);
    this.#placed.push({
      ...{ kind, forward, upstreamName, name, namespace, position },
      action: 'rename',
      wanted: { ...wanted, name: temporary },
      changes: [{ member: 'name', from: name, to: temporary }],
      notes: ['temporarily, because another tool takes its name'],
    });
  }

  #renameForwardTemporarily(index: number, name: string, forward: DesiredForward): void {
    const prefix = this.#claims.freePrefix();
    this.#placed.push({
      kind: 'forward',
      action: 'rename',
      name,
      forward: { ...forward, prefix },
      changes: [{ member: 'prefix', to: prefix }],
      notes: ['temporarily, because other tools take the names of its tools'],
    });
    const others = (this.#blocks[index] ?? []).filter((other) => {
      const step = this.#steps[other];
      return step?.kind !== 'override' || step.forward !== name;
    });
    const freed = others.filter((other) => !this.#claims.waitsForRenamed(name, this.#steps[other]));
    // Without a freed one, the service would reject the step; its message says what to do.
    for (const other of this.#release(index, freed.length > 0 ? freed : others)) this.#place(other);
  }
}

/**
 * Reason why a step is impossible: its tool is `hidden` behind another tool of its name, or its new name is `taken`.
 * `forward` is the forward of the conflicting tool; undefined for a manual tool.
 */
export interface NameConflict {
  readonly kind: 'hidden' | 'taken';
  readonly forward: string | undefined;
}

/** Tracks which tools have or will have each name, and which step frees it. */
export class NameClaims {
  /** Claimants by tool key: the served tool, then the tools it shadows. */
  readonly #claimants = new Map<string, string[]>();
  /** Index of the step that frees the name, by claimant. */
  readonly #releasedBy = new Map<string, number>();
  /** Existing tools of the service, by claimant. */
  readonly #existing = new Map<string, Pick<NameConflict, 'forward'>>();
  /** Tools that follow their forward, where they are then, and the index of the step that changes it; by forward. */
  readonly #relocated = new Map<string, DiscoveredTool[]>();
  readonly #relocatedBy = new Map<string, number>();
  /** Claimants among these tools that have a name of their own, which does not follow the forward's prefix. */
  readonly #renamed = new Set<string>();
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
    for (const tool of discovered) {
      const { forward, upstreamName } = tool;
      const relocation = forwards.relocations.get(forward);
      const moved = relocated(tool, relocation);
      const own = claimantKey(moved === tool ? 'discovered' : 'relocating', forward, upstreamName);
      this.#existing.set(own, { forward });
      this.#claim(toolKey(tool.namespace, tool.name), own);
      if (moved !== tool) this.#relocated.getOrInsertComputed(forward, () => []).push(moved);
      if (relocation && tool.name !== relocation.from.prefix + upstreamName) this.#renamed.add(own);
      byForward.getOrInsertComputed(forward, () => []).push(own);
    }
    // After the tools that have these names now.
    for (const tool of [...this.#relocated.values()].flat()) {
      this.#claim(toolKey(tool.namespace, tool.name), claimantKey('discovered', tool.forward, tool.upstreamName));
    }
    for (const name of forwards.result.keys()) {
      for (const step of steps) {
        if (step.kind !== 'override' || step.forward !== name || !forwards.isUncertain(name)) continue;
        const own = this.#claimantOf(step);
        const key = toolKey(step.namespace, step.name);
        if (!this.#existing.has(own) && !this.#claimantsOf(key).includes(own)) this.#claim(key, own);
      }
    }
    steps.forEach((step, index) => {
      const release = (own: string): unknown => this.#releasedBy.set(own, index);
      if (step.kind === 'tool' && step.action === 'delete') release(claimantKey('tool', step.namespace, step.name));
      if (step.kind === 'forward' && step.action === 'delete') byForward.get(step.name)?.forEach(release);
      if (step.kind === 'forward' && step.action === 'update') {
        this.#relocatedBy.set(step.name, index);
        for (const { upstreamName } of this.#relocated.get(step.name) ?? []) {
          release(claimantKey('relocating', step.name, upstreamName));
        }
      }
      if (step.kind === 'override' && this.targetKey(step) !== toolKey(step.namespace, step.name)) {
        release(this.#claimantOf(step));
      }
    });
  }

  /** Returns the indexes of the steps that must run first; claimants of one name in the order in which they have it. */
  prerequisites(step: Step): number[] {
    const { holders, takers } = this.#blockers(step);
    const first = [...holders, ...takers].map((own) => this.#releasedBy.get(own));
    // Its tools are where the plan expects them after it.
    if (step.kind === 'override' && this.#forwards.relocations.has(step.forward)) {
      first.push(this.#relocatedBy.get(step.forward));
    }
    const own = step.kind === 'forward' ? this.#relocatedBy.get(step.name) : undefined;
    return first.filter((index): index is number => index !== undefined && index !== own);
  }

  /** Whether a step waits for a name that a tool of the forward keeps when only its prefix changes. */
  waitsForRenamed(forward: string, step: Step | undefined): boolean {
    const { holders = [], takers = [] } = step ? this.#blockers(step) : {};
    const isOfForward = (own: string) => this.#existing.get(own)?.forward === forward;
    return [...holders, ...takers].some((own) => this.#renamed.has(own) && isOfForward(own));
  }

  /** Returns the existing tool that makes a step impossible; undefined when there is none. */
  conflict(step: Step): NameConflict | undefined {
    const { holders, takers } = this.#blockers(step);
    const isKept = (own: string) => this.#existing.has(own) && !this.#releasedBy.has(own);
    const hiding = this.#existing.get(holders.find(isKept) ?? '');
    if (hiding) return { kind: 'hidden', ...hiding };
    const taking = this.#existing.get(takers.find(isKept) ?? '');
    return taking && { kind: 'taken', ...taking };
  }

  /**
   * Returns the claimants that must free a name first: `holders` of the tool's current name, which shadow it, and
   * `takers` of its new name.
   */
  #blockers(step: Step): { readonly holders: readonly string[]; readonly takers: readonly string[] } {
    if (step.kind === 'tool' && step.action === 'create') {
      return { holders: [], takers: this.#claimantsOf(toolKey(step.namespace, step.name)) };
    }
    if (step.kind === 'forward' && step.action === 'update') {
      const detours = new Set(this.detours(step.name).map(({ upstreamName }) => upstreamName));
      const tools = (this.#relocated.get(step.name) ?? []).filter(({ upstreamName }) => !detours.has(upstreamName));
      return { holders: [], takers: tools.flatMap((tool) => this.#before(tool)) };
    }
    if (step.kind !== 'override') return { holders: [], takers: [] };
    const own = this.#claimantOf(step);
    const present = toolKey(step.namespace, step.name);
    const claimants = this.#claimantsOf(present);
    const isDetour = this.detours(step.forward).some(({ upstreamName }) => upstreamName === step.upstreamName);
    const holders = isDetour ? [] : claimants.slice(0, Math.max(0, claimants.indexOf(own)));
    const target = this.targetKey(step);
    return { holders, takers: target === present ? [] : this.#claimantsOf(target).filter((other) => other !== own) };
  }

  /**
   * Returns the steps of tools that would follow their forward to names of others, and get other names afterwards: these are
   * renamed temporarily before.
   */
  detours(forward: string): OverrideStep[] {
    return (this.#relocated.get(forward) ?? []).flatMap((tool) => {
      const index = this.#releasedBy.get(claimantKey('discovered', forward, tool.upstreamName));
      const step = index === undefined ? undefined : this.#steps[index];
      return step?.kind === 'override' && this.#before(tool).length > 0 ? [step] : [];
    });
  }

  /** Returns the claimants that have the name of a relocated tool before it. */
  #before({ namespace, name, forward, upstreamName }: DiscoveredTool): readonly string[] {
    const claimants = this.#claimantsOf(toolKey(namespace, name));
    const at = claimants.indexOf(claimantKey('discovered', forward, upstreamName));
    return claimants.slice(0, at).filter((other) => other !== claimantKey('relocating', forward, upstreamName));
  }

  /** Returns the key of the tool after the step. */
  targetKey(step: OverrideStep): string {
    const { namespace, name } = this.destination(step);
    return toolKey(namespace, name);
  }

  /** Returns namespace and name of the tool after the step. */
  destination({ forward, upstreamName, wanted }: OverrideStep): { readonly namespace: string; readonly name: string } {
    const { namespace = '', prefix = '' } = this.#forwards.result.get(forward) ?? {};
    return { namespace: wanted.namespace ?? namespace, name: wanted.name ?? prefix + upstreamName };
  }

  /** Returns a name that no tool has or will have. */
  freeName(namespace: string, name: string): string {
    const targets = new Set(this.#steps.flatMap((step) => (step.kind === 'override' ? [this.targetKey(step)] : [])));
    // Its forward may take it to any namespace.
    const taken = new Set([...targets, ...this.#claimants.keys()].map((key) => JSON.parse(key)[1]));
    let free = `${name}.moving`;
    while (taken.has(free)) free += '.moving';
    this.#claim(toolKey(namespace, free), claimantKey('temporary', namespace, free));
    return free;
  }

  /** Returns a prefix that no forward has or will have. */
  freePrefix(): string {
    const taken = new Set([...this.#claimants.keys()].map((key) => JSON.parse(key)[1]));
    let number = 1;
    while ([...taken].some((name) => String(name).startsWith(`moving${number}.`))) number++;
    return `moving${number}.`;
  }

  #claim(key: string, own: string): void {
    const claimants = this.#claimants.get(key);
    if (claimants) claimants.push(own);
    else this.#claimants.set(key, [own]);
  }

  #claimantsOf(key: string): readonly string[] {
    return this.#claimants.get(key) ?? [];
  }

  /** Tools of a forward that is registered again are new tools. */
  #claimantOf({ forward, upstreamName }: OverrideStep): string {
    return claimantKey(this.#forwards.registered.has(forward) ? 'arriving' : 'discovered', forward, upstreamName);
  }
}

function claimantKey(...parts: readonly string[]): string {
  return JSON.stringify(parts);
}

/** Describes the steps that the service would reject because of an existing tool that no step moves. */
export function findConflicts(steps: readonly Step[], { tools }: DesiredState, claims: NameClaims): string[] {
  const positions = new Map(tools.map(({ namespace, name, position }) => [toolKey(namespace, name), position]));
  return steps.flatMap((step) => {
    const conflict = claims.conflict(step);
    if (!conflict) return [];
    if (step.kind === 'forward' && step.action === 'update') {
      const taken = `a name of its tools is already used by ${resolutionHint(conflict.forward)}, or choose another prefix`;
      return [`${step.forward.position()}: forwards: ${taken}`];
    }
    if (step.kind !== 'override' && step.kind !== 'tool') return [];
    const { namespace, name } = step.kind === 'override' ? claims.destination(step) : step;
    const position = step.kind === 'override' ? step.position : positions.get(toolKey(namespace, name));
    const hidden = step.kind === 'override' && conflict.kind === 'hidden';
    const problem = hidden
      ? explainShadowed(step)
      : `name ${name} in namespace ${namespace} is already used by ${resolutionHint(conflict.forward)}, or choose another name`;
    if (position) return [`${position()}: tools: ${problem}`];
    const suffix = step.kind === 'override' ? ` of forward ${step.forward}` : '';
    return [`cannot revert the changes to tool ${step.name}${suffix}: ${problem}`];
  });
}

/** Names the owner of the conflicting tool and the remedy. */
function resolutionHint(forward: string | undefined): string {
  return forward === undefined
    ? 'a manually registered tool; delete that tool'
    : `a tool of forward ${forward}; rename that tool`;
}
