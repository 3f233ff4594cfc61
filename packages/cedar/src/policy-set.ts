import { type CedarRequest, outcomesOf } from './expression.ts';
import { type CompiledPolicy, namedKeys } from './policy.ts';
import { CAN_BE_FALSE, CAN_BE_TRUE, type Entity, type Failure, Unknown } from './values.ts';

/** A policy that could not be evaluated. */
export interface FailedPolicy {
  readonly policy: CompiledPolicy;
  readonly failure: Failure;
}

/** The policies that apply to a request. */
export class Decision {
  permits: readonly CompiledPolicy[] = NONE;
  forbids: readonly CompiledPolicy[] = NONE;
  failures: readonly FailedPolicy[] = NO_FAILURES;

  /** Whether a permit applies and no forbid can. One that could not be evaluated denies: nobody can say that it does not apply. */
  get isAllowed(): boolean {
    return this.permits.length > 0 && this.forbids.length === 0 && this.failures.every(({ policy }) => policy.isPermit);
  }

  /** Adds the result of a policy. */
  add(policy: CompiledPolicy, result: true | Failure): void {
    if (result !== true) this.failures = [...this.failures, { policy, failure: result }];
    else if (policy.isPermit) this.permits = [...this.permits, policy];
    else this.forbids = [...this.forbids, policy];
  }
}

const NONE: readonly CompiledPolicy[] = [];
const NO_FAILURES: readonly FailedPolicy[] = [];

/** A request of which principal and action are known. */
export type KnownRequest = CedarRequest & { readonly principal: Entity; readonly action: Entity };

/** Policies by what their scope names, so that a decision reads few of them: actions, else principals, else neither. */
export class PolicySet {
  /** In the order of the files. */
  readonly policies: readonly CompiledPolicy[];
  readonly #byAction = new Map<string, CompiledPolicy[]>();
  readonly #byPrincipal = new Map<string, CompiledPolicy[]>();
  readonly #others: CompiledPolicy[] = [];
  readonly #places: ReadonlyMap<CompiledPolicy, number>;
  /** Found before, by entity. */
  readonly #ofActions = new WeakMap<Entity, readonly CompiledPolicy[]>();
  readonly #ofPrincipals = new WeakMap<Entity, readonly CompiledPolicy[]>();

  constructor(policies: readonly CompiledPolicy[]) {
    this.policies = policies;
    this.#places = new Map(policies.map((policy, place) => [policy, place]));
    for (const policy of policies) {
      const { action, principal } = policy.json;
      const keys = namedKeys(action);
      const index = keys ? this.#byAction : this.#byPrincipal;
      const names = keys ?? namedKeys(principal);
      if (!names) this.#others.push(policy);
      for (const name of new Set(names)) listAt(index, name).push(policy);
    }
  }

  /** Decides a request of which everything is known. Its permits and forbids are in the order of the files. */
  decide(request: KnownRequest): Decision {
    const decision = new Decision();
    for (const policy of this.#actionPolicies(request.action)) addTo(decision, policy, request);
    for (const policy of this.#principalPolicies(request.principal)) addTo(decision, policy, request);
    if (decision.permits.length > 1) decision.permits = this.#inOrder(decision.permits);
    if (decision.forbids.length > 1) decision.forbids = this.#inOrder(decision.forbids);
    return decision;
  }

  /** Returns whether the request could be allowed, whatever is unknown of it. It may be that no value allows it all the same. */
  canBeAllowed(request: KnownRequest): boolean {
    let isPermitted = false;
    for (const policies of [this.#actionPolicies(request.action), this.#principalPolicies(request.principal)]) {
      for (const policy of policies) {
        if (policy.isPermit && isPermitted) continue;
        const outcomes = outcomesOf(policy.evaluate(request));
        if (!policy.isPermit && !(outcomes & CAN_BE_FALSE)) return false;
        if (policy.isPermit && outcomes & CAN_BE_TRUE) isPermitted = true;
      }
    }
    return isPermitted;
  }

  #actionPolicies(action: Entity): readonly CompiledPolicy[] {
    let policies = this.#ofActions.get(action);
    if (!policies) {
      policies = this.#inOrder([...this.#others, ...found(this.#byAction, action)]);
      this.#ofActions.set(action, policies);
    }
    return policies;
  }

  #principalPolicies(principal: Entity): readonly CompiledPolicy[] {
    let policies = this.#ofPrincipals.get(principal);
    if (!policies) {
      policies = this.#inOrder(found(this.#byPrincipal, principal));
      this.#ofPrincipals.set(principal, policies);
    }
    return policies;
  }

  /** A policy that names an entity and one that it is in is found twice. */
  #inOrder(policies: Iterable<CompiledPolicy>): readonly CompiledPolicy[] {
    return [...new Set(policies)].sort((one, other) => this.#placeOf(one) - this.#placeOf(other));
  }

  #placeOf(policy: CompiledPolicy): number {
    return this.#places.get(policy) ?? 0;
  }
}

function addTo(decision: Decision, policy: CompiledPolicy, request: CedarRequest): void {
  const result = policy.evaluate(request);
  if (result !== false && !(result instanceof Unknown)) decision.add(policy, result);
}

function listAt(index: Map<string, CompiledPolicy[]>, key: string): CompiledPolicy[] {
  let list = index.get(key);
  if (!list) {
    list = [];
    index.set(key, list);
  }
  return list;
}

function* found(index: ReadonlyMap<string, readonly CompiledPolicy[]>, { key, ancestors }: Entity) {
  yield* index.get(key) ?? [];
  for (const ancestor of ancestors) yield* index.get(ancestor) ?? [];
}
