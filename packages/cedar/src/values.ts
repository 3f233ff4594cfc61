import type { DateTime, Decimal, Duration } from './extension-values.ts';
import type { IpRange } from './ip-range.ts';

/** A value of the policy language. Longs are numbers if that is exact, else bigints: never both for one value. */
export type Value =
  | boolean
  | string
  | number
  | bigint
  | Entity
  | CedarSet
  | CedarRecord
  | Decimal
  | DateTime
  | Duration
  | IpRange;

/** Why an expression has no value. It has no part of the values: it may be logged. A value itself, since throwing takes microseconds. */
export class Failure {
  readonly reason: string;

  constructor(reason: string) {
    this.reason = reason;
  }
}

/** What a boolean expression can be, as a set of bits. */
export const CAN_BE_TRUE = 1;
export const CAN_BE_FALSE = 2;
export const CAN_FAIL = 4;

/** The result of an expression that depends on something unknown: arguments and time, when a list is made. */
export class Unknown {
  /** What it can be if it is a boolean: {@link CAN_BE_TRUE} and others. */
  readonly outcomes: number;

  constructor(outcomes: number) {
    this.outcomes = outcomes;
  }
}

/** Something of which nothing is known. */
export const ANYTHING = new Unknown(CAN_BE_TRUE | CAN_BE_FALSE | CAN_FAIL);

/** Result of an expression. */
export type Result = Value | Failure | Unknown;

/** An object whose members are read one by one: a record of a policy, or of arguments that are converted when a policy reads them. */
export interface RecordSource {
  /** Returns a member; undefined if there is none. */
  get(name: string): Result | undefined;
  /** Names of all members, each once. */
  names(): Iterable<string>;
}

/** A record. */
export class CedarRecord {
  readonly source: RecordSource;

  constructor(source: RecordSource) {
    this.source = source;
  }

  /** Returns the record with these members. */
  static of(members: ReadonlyMap<string, Result>): CedarRecord {
    return new CedarRecord({ get: (name) => members.get(name), names: () => members.keys() });
  }
}

const NO_MEMBERS: ReadonlyMap<string, Result> = new Map();
const NO_KEYS: ReadonlySet<string> = new Set();

/** Members of an {@link Entity}. */
export interface EntityMembers {
  readonly attributes?: ReadonlyMap<string, Result>;
  readonly tags?: ReadonlyMap<string, Result>;
  /** Keys of all entities that it is in, also through others. */
  readonly ancestors?: ReadonlySet<string>;
}

/** An entity: a reference by type and id, with what is known of it. */
export class Entity {
  readonly type: string;
  readonly id: string;
  /** Two entities are the same if their keys are. */
  readonly key: string;
  /** Undefined for a reference to an entity that does not exist. */
  readonly attributes: ReadonlyMap<string, Result> | undefined;
  readonly tags: ReadonlyMap<string, Result>;
  readonly ancestors: ReadonlySet<string>;

  constructor(type: string, id: string, members?: EntityMembers) {
    this.type = type;
    this.id = id;
    this.key = entityKey(type, id);
    this.attributes = members && (members.attributes ?? NO_MEMBERS);
    this.tags = members?.tags ?? NO_MEMBERS;
    this.ancestors = members?.ancestors ?? NO_KEYS;
  }
}

/** Returns the key of an entity. Types have no quotation marks, so that no two entities share one. */
export function entityKey(type: string, id: string): string {
  return `${type}::"${id}`;
}

/** Sets with more elements are searched by hash. */
const FEW = 8;

/** A set. Its elements may occur several times. They have no members without a value. */
export class CedarSet {
  readonly elements: readonly Value[];
  #texts: ReadonlySet<string> | undefined;
  #text: string | undefined;

  constructor(elements: readonly Value[]) {
    this.elements = elements;
  }

  /** Returns whether a value is among the elements. */
  has(value: Value): boolean {
    if (typeof value !== 'object' && this.elements.length <= FEW) return this.elements.includes(value);
    return this.texts.has(canonicalText(value));
  }

  /** Returns whether all elements of another set are among those of this one. */
  hasAll(other: CedarSet): boolean {
    return other.elements.every((element) => this.has(element));
  }

  /** {@link canonicalText} of its elements. Each is made once: comparing nested sets pair by pair would take exponential time. */
  get texts(): ReadonlySet<string> {
    this.#texts ??= new Set(this.elements.map(canonicalText));
    return this.#texts;
  }

  /** Its own {@link canonicalText}. */
  get text(): string {
    this.#text ??= `{${[...this.texts].sort().join()}}`;
    return this.#text;
  }
}

/**
 * Returns whether two values are equal; values of two types never are. A record with a member that has no value, or an unknown one,
 * gives that.
 */
export function equals(one: Value, other: Value): boolean | Failure | Unknown {
  if (one === other) return true;
  if (typeof one !== 'object' || typeof other !== 'object') return false;
  if (one instanceof Entity) return other instanceof Entity && one.key === other.key;
  if (one instanceof CedarRecord) return other instanceof CedarRecord && equalRecords(one.source, other.source);
  if (one instanceof CedarSet) return other instanceof CedarSet && one.text === other.text;
  return one.constructor === other.constructor && one.text === (other as typeof one).text;
}

function equalRecords(one: RecordSource, other: RecordSource): boolean | Failure | Unknown {
  const names = [...one.names()];
  const others = new Set(other.names());
  if (names.length !== others.size || !names.every((name) => others.has(name))) return false;
  let result: boolean | Unknown = true;
  for (const name of names) {
    const [a, b] = [one.get(name), other.get(name)];
    if (a === undefined || b === undefined) return false;
    if (a instanceof Failure) return a;
    if (b instanceof Failure) return b;
    const same: boolean | Failure | Unknown = a instanceof Unknown || b instanceof Unknown ? ANYTHING : equals(a, b);
    if (same === false || same instanceof Failure) return same;
    if (same instanceof Unknown) result = same;
  }
  return result;
}

/** Returns what a record has no value for, at any depth; undefined if it is complete, and for other values. */
export function problemOf(value: Value): Failure | Unknown | undefined {
  if (!(value instanceof CedarRecord)) return undefined;
  let unknown: Unknown | undefined;
  for (const name of value.source.names()) {
    const member = value.source.get(name);
    if (member === undefined) continue;
    const problem = member instanceof Failure || member instanceof Unknown ? member : problemOf(member);
    if (problem instanceof Failure) return problem;
    unknown ??= problem;
  }
  return unknown;
}

/** Returns a text that two values share exactly if they are equal. */
function canonicalText(value: Value): string {
  if (typeof value === 'string') return JSON.stringify(value);
  if (typeof value !== 'object') return String(value);
  if (value instanceof Entity) return `entity ${JSON.stringify(value.key)}`;
  if (!(value instanceof CedarRecord)) return value.text;
  const { source } = value;
  const members = Array.from(source.names(), (name) => `${JSON.stringify(name)}:${memberText(source.get(name))}`);
  return `(${members.sort().join()})`;
}

function memberText(member: Result | undefined): string {
  return member === undefined || member instanceof Failure || member instanceof Unknown ? '' : canonicalText(member);
}

/** Returns the name of a value's type, for messages. */
export function typeName(value: Value): string {
  switch (typeof value) {
    case 'number':
    case 'bigint':
      return 'long';
    case 'object':
      break;
    default:
      return typeof value;
  }
  if (value instanceof Entity) return `entity of type ${value.type}`;
  if (value instanceof CedarSet) return 'set';
  return value instanceof CedarRecord ? 'record' : value.typeName;
}

/** Returns why a value is of a wrong type. */
export function expected(type: string, value: Value): Failure {
  return new Failure(`expected ${type}, got ${typeName(value)}`);
}
