import { type CedarRequest, compileExpression, type Evaluate, outcomesOf, PolicyFormatError } from './expression.ts';
import { isIn } from './operators.ts';
import { CAN_BE_FALSE, CAN_BE_TRUE, Entity, entityKey, Failure, Unknown } from './values.ts';

/** A reference to an entity in the JSON form of Cedar's parser. */
export interface EntityJson {
  readonly type: string;
  readonly id: string;
}

/** What the scope of a policy says of the principal, the action or the resource, in the JSON form of Cedar's parser. */
export type ConstraintJson =
  | { readonly op: 'All' }
  | { readonly op: '=='; readonly entity: EntityJson }
  | { readonly op: 'in'; readonly entity: EntityJson }
  | { readonly op: 'in'; readonly entities: readonly EntityJson[] }
  | { readonly op: 'is'; readonly entity_type: string; readonly in?: { readonly entity: EntityJson } };

/** A policy in the JSON form of Cedar's parser. */
export interface PolicyJson {
  readonly effect: 'permit' | 'forbid';
  readonly principal: ConstraintJson;
  readonly action: ConstraintJson;
  readonly resource: ConstraintJson;
  readonly conditions: readonly { readonly kind: 'when' | 'unless'; readonly body: unknown }[];
  /** Values by name; null for an annotation without one. */
  readonly annotations?: Readonly<Record<string, string | null>>;
}

/** A part of a condition: all parts must be true. */
export interface Conjunct {
  readonly evaluate: Evaluate;
  /** In the JSON form of Cedar's parser. */
  readonly json: unknown;
}

/** A compiled policy. */
export class CompiledPolicy {
  readonly id: string;
  readonly json: PolicyJson;
  readonly isPermit: boolean;
  readonly conjuncts: readonly Conjunct[];
  readonly #principal: Constraint;
  readonly #action: Constraint;
  readonly #resource: Constraint;

  /** Throws {@link PolicyFormatError}. */
  constructor(id: string, json: PolicyJson) {
    this.id = id;
    this.json = json;
    this.isPermit = json.effect === 'permit';
    this.#principal = compileConstraint(json.principal);
    this.#action = compileConstraint(json.action);
    this.#resource = compileConstraint(json.resource);
    this.conjuncts = json.conditions.flatMap(conjunctsOf);
  }

  /** Returns whether the policy applies: true, false, why it cannot be said, or what is possible. */
  evaluate(request: CedarRequest): boolean | Failure | Unknown {
    const scope = this.scope(request);
    if (scope === false) return false;
    let unknown: Unknown | undefined = scope === true ? undefined : scope;
    for (const { evaluate } of this.conjuncts) {
      const result = evaluate(request);
      if (result === true) continue;
      if (result instanceof Unknown) {
        unknown = both(unknown, result);
        continue;
      }
      // Without what is unknown before it, this decides.
      const decided = result === false || result instanceof Failure ? result : NO_BOOLEAN;
      return unknown ? both(unknown, new Unknown(outcomesOf(decided))) : decided;
    }
    return unknown ?? true;
  }

  /** Returns whether the request is in the scope of the policy. */
  scope({ principal, action, resource }: CedarRequest): boolean | Unknown {
    let result: boolean | Unknown = true;
    for (const matched of [this.#action(action), this.#principal(principal), this.#resource(resource)]) {
      if (matched === false) return false;
      if (matched !== true) result = matched;
    }
    return result;
  }
}

const NO_BOOLEAN = new Failure('a condition is no boolean');

/** What `first && second` can be. */
function both(first: Unknown | undefined, second: Unknown): Unknown {
  if (!first) return second;
  const reached = first.outcomes & CAN_BE_TRUE ? second.outcomes : 0;
  return new Unknown((first.outcomes & ~CAN_BE_TRUE) | reached);
}

/** Without an unknown: the commonest case, and the fast one. */
type Constraint = (entity: Entity | Unknown) => boolean | Unknown;

const CAN_MATCH = new Unknown(CAN_BE_TRUE | CAN_BE_FALSE);

function compileConstraint(json: ConstraintJson): Constraint {
  if (json.op === 'All') return () => true;
  const matches = matcherOf(json);
  return (entity) => (entity instanceof Entity ? matches(entity) : CAN_MATCH);
}

function matcherOf(json: Exclude<ConstraintJson, { readonly op: 'All' }>): (entity: Entity) => boolean {
  switch (json.op) {
    case '==': {
      const key = keyOf(json.entity);
      return (entity) => entity.key === key;
    }
    case 'in': {
      const containers = ('entity' in json ? [json.entity] : json.entities).map(referenceTo);
      return (entity) => containers.some((container) => isIn(entity, container) === true);
    }
    case 'is': {
      const container = json.in && referenceTo(json.in.entity);
      return (entity) => entity.type === json.entity_type && (!container || isIn(entity, container) === true);
    }
    default:
      throw new PolicyFormatError('the scope has an operator that is not known');
  }
}

function referenceTo({ type, id }: EntityJson): Entity {
  return new Entity(type, id);
}

function keyOf({ type, id }: EntityJson): string {
  return entityKey(type, id);
}

/** Returns the keys of the entities that a scope names; undefined if it applies to others as well. */
export function namedKeys(json: ConstraintJson): readonly string[] | undefined {
  switch (json.op) {
    case '==':
      return [keyOf(json.entity)];
    case 'in':
      return ('entity' in json ? [json.entity] : json.entities).map(keyOf);
    case 'is':
      return json.in && [keyOf(json.in.entity)];
    default:
      return undefined;
  }
}

function conjunctsOf({ kind, body }: PolicyJson['conditions'][number]): Conjunct[] {
  if (kind === 'unless') {
    const json = { '!': { arg: body } };
    return [{ evaluate: compileExpression(json), json }];
  }
  // Chains lean to the left.
  const parts: unknown[] = [];
  let rest: unknown = body;
  for (let and = andOf(rest); and; and = andOf(rest)) {
    parts.unshift(and.right);
    rest = and.left;
  }
  return [rest, ...parts].map((json) => ({ evaluate: compileExpression(json), json }));
}

function andOf(json: unknown): { readonly left: unknown; readonly right: unknown } | undefined {
  return Object(json)['&&'];
}
