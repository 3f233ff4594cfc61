import { DateTime, Duration } from './extension-values.ts';
import { add, type Long, multiply, subtract } from './long.ts';
import {
  CedarRecord,
  CedarSet,
  Entity,
  equals,
  expected,
  Failure,
  problemOf,
  type Result,
  type Unknown,
  type Value,
} from './values.ts';

/** Operators with one operand, `arg`, that is evaluated to a value first. */
export const unaryOperators: ReadonlyMap<string, (value: Value) => Result> = new Map<string, (value: Value) => Result>([
  ['!', (value) => (typeof value === 'boolean' ? !value : expected('bool', value))],
  ['neg', (value) => (isLong(value) ? inRange(subtract(0, value)) : expected('long', value))],
  ['isEmpty', (value) => (value instanceof CedarSet ? value.elements.length === 0 : expected('set', value))],
]);

/** Operators with two operands, `left` and `right`, that are both evaluated to values first. */
export const binaryOperators: ReadonlyMap<string, (left: Value, right: Value) => Result> = new Map<
  string,
  (left: Value, right: Value) => Result
>([
  ['==', equals],
  ['!=', (left, right) => negated(equals(left, right))],
  ['<', comparison((left, right) => left < right)],
  ['<=', comparison((left, right) => left <= right)],
  ['>', comparison((left, right) => left > right)],
  ['>=', comparison((left, right) => left >= right)],
  ['+', arithmetic(add)],
  ['-', arithmetic(subtract)],
  ['*', arithmetic(multiply)],
  ['in', (left, right) => (left instanceof Entity ? isIn(left, right) : expected('entity', left))],
  ['contains', contains],
  ['containsAll', ofSets((left, right) => left.hasAll(right))],
  ['containsAny', ofSets((left, right) => right.elements.some((element) => left.has(element)))],
  ['hasTag', ofTag((entity, name) => entity.tags.has(name))],
]);

function isLong(value: Value): value is Long {
  return typeof value === 'number' || typeof value === 'bigint';
}

function inRange(value: Long | undefined): Long | Failure {
  return value ?? new Failure('integer overflow');
}

function negated(value: boolean | Failure | Unknown): boolean | Failure | Unknown {
  return typeof value === 'boolean' ? !value : value;
}

function comparison(compare: (left: Long, right: Long) => boolean): (left: Value, right: Value) => Result {
  return (left, right) => {
    if (isLong(left)) return isLong(right) ? compare(left, right) : expected('long', right);
    if (left instanceof DateTime || left instanceof Duration) {
      const isSameType = left.constructor === right.constructor;
      return isSameType ? compare(left.amount, (right as typeof left).amount) : expected(left.typeName, right);
    }
    return expected('long, datetime or duration', left);
  };
}

function arithmetic(compute: (left: Long, right: Long) => Long | undefined): (left: Value, right: Value) => Result {
  return (left, right) => {
    if (!isLong(left)) return expected('long', left);
    return isLong(right) ? inRange(compute(left, right)) : expected('long', right);
  };
}

/** Returns whether an entity is one of the given entities, or in one of them. */
export function isIn(entity: Entity, container: Value): boolean | Failure {
  if (container instanceof Entity) return entity.key === container.key || entity.ancestors.has(container.key);
  if (!(container instanceof CedarSet)) return expected('entity or set of entities', container);
  const wrong = container.elements.find((element) => !(element instanceof Entity));
  if (wrong !== undefined) return expected('entity', wrong);
  return container.elements.some((element) => element instanceof Entity && isIn(entity, element) === true);
}

function contains(left: Value, right: Value): Result {
  if (!(left instanceof CedarSet)) return expected('set', left);
  return problemOf(right) ?? left.has(right);
}

function ofSets(compute: (left: CedarSet, right: CedarSet) => boolean): (left: Value, right: Value) => Result {
  return (left, right) => {
    if (!(left instanceof CedarSet)) return expected('set', left);
    return right instanceof CedarSet ? compute(left, right) : expected('set', right);
  };
}

function ofTag(read: (entity: Entity, name: string) => Result): (left: Value, right: Value) => Result {
  return (left, right) => {
    if (!(left instanceof Entity)) return expected('entity', left);
    return typeof right === 'string' ? read(left, right) : expected('string', right);
  };
}

/** Returns a tag of an entity. */
export const getTag = ofTag((entity, name) => entity.tags.get(name) ?? new Failure('the entity has no such tag'));

/** Returns a member of a record or an attribute of an entity. */
export function memberOf(value: Value, name: string): Result {
  if (value instanceof CedarRecord) {
    return value.source.get(name) ?? new Failure(`the record has no member "${name}"`);
  }
  if (!(value instanceof Entity)) return expected('record or entity', value);
  if (!value.attributes) return new Failure('the entity does not exist');
  return value.attributes.get(name) ?? new Failure(`the entity has no attribute "${name}"`);
}

/** Returns whether a record or an entity has a member, with or without a value. */
export function hasMember(value: Value, name: string): boolean | Failure {
  if (value instanceof CedarRecord) return value.source.get(name) !== undefined;
  return value instanceof Entity ? (value.attributes?.has(name) ?? false) : expected('record or entity', value);
}
