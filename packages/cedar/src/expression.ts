import { extensionFunctions } from './extension-functions.ts';
import { compilePattern, type PatternElement } from './like.ts';
import { binaryOperators, getTag, hasMember, isIn, memberOf, unaryOperators } from './operators.ts';
import {
  ANYTHING,
  CAN_BE_FALSE,
  CAN_BE_TRUE,
  CAN_FAIL,
  CedarRecord,
  CedarSet,
  Entity,
  expected,
  Failure,
  problemOf,
  type Result,
  Unknown,
  type Value,
} from './values.ts';

/** What is decided. Each part may be unknown. */
export interface CedarRequest {
  readonly principal: Entity | Unknown;
  readonly action: Entity | Unknown;
  readonly resource: Entity | Unknown;
  readonly context: CedarRecord | Unknown;
  /** Entities that policies may name, by their keys. */
  readonly entities: ReadonlyMap<string, Entity>;
}

/** A compiled expression. */
export type Evaluate = (request: CedarRequest) => Result;

/** An expression in the JSON form of Cedar's parser: one member, whose name is that of the operator. */
export type ExpressionJson = { readonly [operator: string]: unknown };

/** A policy that cannot be compiled. */
export class PolicyFormatError extends Error {
  override readonly name = 'PolicyFormatError';
}

/** Expressions are compiled and evaluated by recursion. */
const MAX_DEPTH = 200;

/** Compiles an expression. Throws {@link PolicyFormatError}. */
export function compileExpression(json: unknown, depth = 0): Evaluate {
  if (depth > MAX_DEPTH) throw new PolicyFormatError(`an expression is nested more than ${MAX_DEPTH} levels deep`);
  const [entry, ...others] = Object.entries(Object(json));
  if (!entry || others.length > 0) throw new PolicyFormatError('an expression has no operator');
  const [operator, operand] = entry;
  const compile = (inner: unknown) => compileExpression(inner, depth + 1);
  const special = SPECIAL.get(operator);
  if (special) return special(Object(operand), compile);
  const unary = unaryOperators.get(operator);
  if (unary) return compileUnary(unary, compile(Object(operand).arg));
  const binary = binaryOperators.get(operator);
  if (binary) return compileBinary(binary, compile(Object(operand).left), compile(Object(operand).right));
  const extension = extensionFunctions.get(operator);
  if (extension && Array.isArray(operand)) return compileCall(extension, operand.map(compile));
  throw new PolicyFormatError(`the operator "${operator}" is not known`);
}

type Compile = (json: unknown) => Evaluate;

// biome-ignore lint/suspicious/noExplicitAny: operands have as many forms as there are operators; the parser has checked them
type Operand = any;

/** Operators that do not evaluate all operands to values first, or whose operands are no expressions. */
const SPECIAL: ReadonlyMap<string, (operand: Operand, compile: Compile) => Evaluate> = new Map<
  string,
  (operand: Operand, compile: Compile) => Evaluate
>([
  ['Value', (value) => compileLiteral(value.valueOf())],
  ['Var', (name) => variable(String(name))],
  ['&&', ({ left, right }, compile) => and(compile(left), compile(right))],
  ['||', ({ left, right }, compile) => or(compile(left), compile(right))],
  ['if-then-else', (operand, compile) => choose(compile(operand.if), compile(operand.then), compile(operand.else))],
  ['.', ({ left, attr }, compile) => member(compile(left), attr)],
  ['getTag', ({ left, right }, compile) => resolved(compileBinary(getTag, compile(left), compile(right)))],
  ['has', ({ left, attr }, compile) => has(compile(left), Array.isArray(attr) ? attr : [attr])],
  ['like', ({ left, pattern }, compile) => like(compile(left), pattern)],
  ['is', (operand, compile) => is(compile(operand.left), operand.entity_type, operand.in && compile(operand.in))],
  ['Set', (elements, compile) => set(elements.map(compile))],
  ['Record', (members, compile) => record(Object.entries(members).map(([name, json]) => [name, compile(json)]))],
]);

function variable(name: string): Evaluate {
  switch (name) {
    case 'principal':
      return ({ principal }) => principal;
    case 'action':
      return ({ action }) => action;
    case 'resource':
      return ({ resource }) => resource;
    case 'context':
      return ({ context }) => context;
    default:
      throw new PolicyFormatError(`the variable "${name}" is not known`);
  }
}

function compileLiteral(json: Operand): Evaluate {
  if (typeof json === 'object' && '__entity' in json) {
    const reference = new Entity(json.__entity.type, json.__entity.id);
    return constant(reference, ({ entities }) => entities.get(reference.key) ?? reference);
  }
  if (typeof json === 'boolean' || typeof json === 'string') return constant(json);
  // The parser's JSON form has numbers of JavaScript, which have changed the larger ones.
  if (Number.isSafeInteger(json)) return constant(json);
  throw new PolicyFormatError('a number beyond 9007199254740991 cannot be compared exactly');
}

/** Values of expressions that never change. Those of entities are references. */
const constants = new WeakMap<Evaluate, Value>();

function constant(value: Value, evaluate: Evaluate = () => value): Evaluate {
  constants.set(evaluate, value);
  return evaluate;
}

/** Returns the values of operands that never change; undefined if one does. */
function constantsOf(operands: readonly Evaluate[]): readonly Value[] | undefined {
  const values = operands.map((operand) => constants.get(operand));
  return values.every((value) => value !== undefined) ? values : undefined;
}

/** Returns a result that must be a boolean. */
function expectBoolean(result: Result): boolean | Failure | Unknown {
  return isBoolean(result) ? result : expected('bool', result);
}

function isBoolean(result: Result): result is boolean | Failure | Unknown {
  return typeof result === 'boolean' || result instanceof Failure || result instanceof Unknown;
}

const FAILED = new Failure('no value is possible');
const BY_OUTCOMES: readonly (boolean | Failure | Unknown)[] = [
  FAILED,
  true,
  false,
  new Unknown(CAN_BE_TRUE | CAN_BE_FALSE),
  FAILED,
  new Unknown(CAN_BE_TRUE | CAN_FAIL),
  new Unknown(CAN_BE_FALSE | CAN_FAIL),
  ANYTHING,
];

/** Returns what a boolean can be, as a set of bits. */
export function outcomesOf(result: boolean | Failure | Unknown): number {
  if (result instanceof Unknown) return result.outcomes;
  if (result instanceof Failure) return CAN_FAIL;
  return result ? CAN_BE_TRUE : CAN_BE_FALSE;
}

function and(left: Evaluate, right: Evaluate): Evaluate {
  return (request) => {
    const first = expectBoolean(left(request));
    if (first === true) return expectBoolean(right(request));
    if (!(first instanceof Unknown)) return first;
    const { outcomes } = first;
    const second = outcomes & CAN_BE_TRUE ? outcomesOf(expectBoolean(right(request))) : 0;
    return BY_OUTCOMES[(outcomes & ~CAN_BE_TRUE) | second] ?? ANYTHING;
  };
}

function or(left: Evaluate, right: Evaluate): Evaluate {
  return (request) => {
    const first = expectBoolean(left(request));
    if (first === false) return expectBoolean(right(request));
    if (!(first instanceof Unknown)) return first;
    const { outcomes } = first;
    const second = outcomes & CAN_BE_FALSE ? outcomesOf(expectBoolean(right(request))) : 0;
    return BY_OUTCOMES[(outcomes & ~CAN_BE_FALSE) | second] ?? ANYTHING;
  };
}

function choose(condition: Evaluate, then: Evaluate, otherwise: Evaluate): Evaluate {
  return (request) => {
    const value = expectBoolean(condition(request));
    if (value === true) return then(request);
    if (value === false) return otherwise(request);
    if (value instanceof Failure) return value;
    const first = then(request);
    const second = otherwise(request);
    if (!isBoolean(first) || !isBoolean(second)) return ANYTHING;
    const { outcomes } = value;
    const bits = (outcomes & CAN_BE_TRUE ? outcomesOf(first) : 0) | (outcomes & CAN_BE_FALSE ? outcomesOf(second) : 0);
    return BY_OUTCOMES[(outcomes & CAN_FAIL) | bits] ?? ANYTHING;
  };
}

function compileUnary(apply: (value: Value) => Result, operand: Evaluate): Evaluate {
  return (request) => {
    const value = operand(request);
    return value instanceof Failure || value instanceof Unknown ? whatIsLeft(value) : apply(value);
  };
}

/** What an operator makes of an operand that is no value. */
function whatIsLeft(operand: Failure | Unknown): Failure | Unknown {
  return operand instanceof Failure ? operand : ANYTHING;
}

function compileBinary(apply: (left: Value, right: Value) => Result, left: Evaluate, right: Evaluate): Evaluate {
  return (request) => {
    const one = left(request);
    if (one instanceof Failure) return one;
    const other = right(request);
    if (other instanceof Failure) return other;
    return one instanceof Unknown || other instanceof Unknown ? ANYTHING : apply(one, other);
  };
}

function compileCall(apply: (...values: readonly Value[]) => Result, operands: readonly Evaluate[]): Evaluate {
  const fixed = constantsOf(operands);
  if (fixed) {
    const result = apply(...fixed);
    return result instanceof Failure || result instanceof Unknown ? () => result : constant(result);
  }
  return (request) => {
    const values = valuesOf(operands, request);
    return values instanceof Failure || values instanceof Unknown ? values : apply(...values);
  };
}

/** Evaluates operands in order; returns the first failure, or that one of them is unknown. */
function valuesOf(operands: readonly Evaluate[], request: CedarRequest): Value[] | Failure | Unknown {
  const values: Value[] = [];
  let unknown: Unknown | undefined;
  for (const operand of operands) {
    const value = operand(request);
    if (value instanceof Failure) return value;
    if (value instanceof Unknown) unknown = ANYTHING;
    else values.push(value);
  }
  return unknown ?? values;
}

/** Values of attributes and tags are references to entities: what is known of these is in the request. */
function resolved(evaluate: Evaluate): Evaluate {
  return (request) => {
    const result = evaluate(request);
    return result instanceof Entity ? (request.entities.get(result.key) ?? result) : result;
  };
}

function member(left: Evaluate, name: string): Evaluate {
  return resolved(compileUnary((value) => memberOf(value, name), left));
}

/** `x has a.b` is `x has a && x.a has b`. */
function has(left: Evaluate, [name, ...path]: readonly string[]): Evaluate {
  if (name === undefined) throw new PolicyFormatError('the operator "has" has no name');
  const first = compileUnary((value) => hasMember(value, name), left);
  return path.length === 0 ? first : and(first, has(member(left, name), path));
}

function like(left: Evaluate, pattern: readonly PatternElement[]): Evaluate {
  const matches = compilePattern(pattern);
  return compileUnary((value) => (typeof value === 'string' ? matches(value) : expected('string', value)), left);
}

function is(left: Evaluate, type: string, within: Evaluate | undefined): Evaluate {
  return (request) => {
    const value = left(request);
    if (value instanceof Failure || value instanceof Unknown) return whatIsLeft(value);
    if (!(value instanceof Entity)) return expected('entity', value);
    if (value.type !== type) return false;
    if (!within) return true;
    const container = within(request);
    return container instanceof Failure || container instanceof Unknown
      ? whatIsLeft(container)
      : isIn(value, container);
  };
}

function set(elements: readonly Evaluate[]): Evaluate {
  const fixed = constantsOf(elements);
  if (fixed) return constant(new CedarSet(fixed));
  return (request) => {
    const values = valuesOf(elements, request);
    if (values instanceof Failure || values instanceof Unknown) return values;
    let unknown: Unknown | undefined;
    for (const value of values) {
      const problem = problemOf(value);
      if (problem instanceof Failure) return problem;
      unknown ??= problem;
    }
    return unknown ? ANYTHING : new CedarSet(values);
  };
}

function record(members: readonly (readonly [name: string, evaluate: Evaluate])[]): Evaluate {
  return (request) => {
    const values = new Map<string, Result>();
    for (const [name, evaluate] of members) {
      const value = evaluate(request);
      if (value instanceof Failure) return value;
      values.set(name, value);
    }
    return CedarRecord.of(values);
  };
}
