import { Decimal } from '@sluice/cedar/extension-values';
import { toLong } from '@sluice/cedar/long';
import {
  CedarRecord,
  CedarSet,
  Failure,
  problemOf,
  type RecordSource,
  type Result,
  type Value,
} from '@sluice/cedar/values';
import { hasMoreValues, type Json, readJson } from '@sluice/protocol/json/parse';
import { foldedName, type InputType, type RecordType } from './input-type.ts';

/** More values, or deeper ones, are not read: conditions that need them fail. */
const MAX_VALUES = 10_000;
const MAX_DEPTH = 32;

const TOO_MANY = new Failure(`the arguments have more than ${MAX_VALUES} values`);
const TOO_DEEP = new Failure(`an argument is nested more than ${MAX_DEPTH} levels deep`);
const NULL = new Failure('an argument is null');
const NOT_EXACT = new Failure('a number in the arguments cannot be compared exactly');
const NOT_UNICODE = new Failure('a text in the arguments is not valid Unicode');

/** Values of arguments that the service reads itself, and no server gets. */
const OWN_PREFIX = 'service_auth_';

/** A number as it is written. */
class NumberText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

type InputValue = Json<NumberText>;

/** Arguments that some server reads in another way than policies: two names in an object that it may take for the same. */
export const AMBIGUOUS = Symbol('ambiguous');

/**
 * Returns the arguments of a call as policies read them, each when it is read: numbers by the type that the schema declares, exactly;
 * texts never as entities or extension values. A value that cannot be compared exactly has none: what reads it fails.
 *
 * @param text JSON of an object
 */
export function readInput(text: string, type: RecordType): CedarRecord | Failure | typeof AMBIGUOUS {
  if (hasMoreValues(text, MAX_VALUES)) return TOO_MANY;
  let value: InputObjectJson;
  try {
    value = readJson(text, (number) => new NumberText(number), true) as InputObjectJson;
  } catch {
    // A name occurs twice, or it is nested more deeply than JSON may be.
    return AMBIGUOUS;
  }
  return isAmbiguous(value, type) ? AMBIGUOUS : recordOf(value, type, 0);
}

type InputObjectJson = { readonly [name: string]: InputValue };

/** Whether an object at any depth has two such names, or one that its schema declares in another form. */
function isAmbiguous(value: InputValue | InputObjectJson, type: InputType | undefined): boolean {
  if (typeof value !== 'object' || value === null || value instanceof NumberText) return false;
  if (Array.isArray(value)) {
    const element = type?.kind === 'array' ? type.element : undefined;
    return value.some((each) => isAmbiguous(each, element));
  }
  const record = type?.kind === 'object' ? type : undefined;
  const seen = new Set<string>();
  for (const [name, inner] of Object.entries(value)) {
    const folded = foldedName(name);
    if (seen.has(folded) || (record?.folded.get(folded) ?? name) !== name) return true;
    seen.add(folded);
    if (isAmbiguous(inner, record?.members.get(name)?.type)) return true;
  }
  return false;
}

function recordOf(object: InputObjectJson, type: RecordType | undefined, depth: number): CedarRecord {
  return new CedarRecord(new InputObject(object, type, depth));
}

class InputObject implements RecordSource {
  readonly #object: InputObjectJson;
  readonly #type: RecordType | undefined;
  readonly #depth: number;
  /** Arrays and objects that were read: converting them again would take time with each condition. */
  readonly #read = new Map<string, Result>();

  constructor(object: InputObjectJson, type: RecordType | undefined, depth: number) {
    this.#object = object;
    this.#type = type;
    this.#depth = depth;
  }

  get(name: string): Result | undefined {
    if (!this.#has(name)) return undefined;
    const value = this.#object[name] as InputValue;
    const read = () => convert(value, this.#type?.members.get(name)?.type, this.#depth + 1);
    return typeof value === 'object' ? this.#read.getOrInsertComputed(name, read) : read();
  }

  names(): Iterable<string> {
    return Object.keys(this.#object).filter((name) => this.#has(name));
  }

  #has(name: string): boolean {
    return Object.hasOwn(this.#object, name) && !(this.#depth === 0 && name.startsWith(OWN_PREFIX));
  }
}

function convert(value: InputValue, type: InputType | undefined, depth: number): Value | Failure {
  if (typeof value === 'string') return value.isWellFormed() ? value : NOT_UNICODE;
  if (typeof value === 'boolean') return value;
  if (value === null) return NULL;
  if (value instanceof NumberText) return numberOf(value.text, type?.kind === 'number');
  if (depth > MAX_DEPTH) return TOO_DEEP;
  if (!Array.isArray(value)) return recordOf(value, type?.kind === 'object' ? type : undefined, depth);
  const elements: Value[] = [];
  for (const element of value) {
    const converted = convert(element, type?.kind === 'array' ? type.element : undefined, depth + 1);
    const problem = converted instanceof Failure ? converted : problemOf(converted);
    if (problem) return problem instanceof Failure ? problem : NOT_EXACT;
    elements.push(converted as Value);
  }
  return new CedarSet(elements);
}

const NUMBER = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/;
/** Longest number, and largest exponent, that is read; larger ones have no value in the language anyway. */
const MAX_NUMBER_LENGTH = 64;
const PLACES = 4;
/** Texts of this length have few enough digits that a number of JavaScript is exact. */
const EXACT_LENGTH = 15;
const EXPONENT = /[eE]/;

/** Returns the exact value of a number: an integer if it is one, however it is written; a decimal if the schema says so. */
function numberOf(text: string, isDecimal: boolean): Value | Failure {
  const isShort = text.length <= EXACT_LENGTH && !EXPONENT.test(text);
  if (isShort && !isDecimal && Number.isSafeInteger(Number(text))) return Number(text) + 0;
  const [, sign = '', whole = '', fraction = '', exponentText = '0'] =
    (text.length <= MAX_NUMBER_LENGTH && NUMBER.exec(text)) || [];
  const digits = `${whole}${fraction}`.replace(/^0+/, '');
  if (whole === '') return NOT_EXACT;
  if (digits === '') return isDecimal ? new Decimal(0) : 0;
  // The value is `digits * 10 ** exponent`.
  const trimmed = digits.replace(/0+$/, '');
  const exponent = Number(exponentText) - fraction.length + digits.length - trimmed.length;
  if (Math.abs(exponent) > MAX_NUMBER_LENGTH || exponent < -PLACES) return NOT_EXACT;
  if (!isDecimal && exponent >= 0) return toLong(BigInt(`${sign}${trimmed}${'0'.repeat(exponent)}`)) ?? NOT_EXACT;
  const amount = toLong(BigInt(`${sign}${trimmed}${'0'.repeat(exponent + PLACES)}`));
  return amount === undefined ? NOT_EXACT : new Decimal(amount);
}
