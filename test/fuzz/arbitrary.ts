import fc from 'fast-check';
import { type ApiDocument, isObject, type JsonObject } from './document.ts';

/** What {@link Arbitraries} takes from elsewhere. */
export interface Sources {
  readonly document: ApiDocument;
  /** A value that the service is known to have under this member's name, chosen by the number. */
  readonly known: (member: string, number: number) => unknown;
  /** Addresses to take for `format: uri`. */
  readonly uris: readonly string[];
  /** Texts to take for members of these names, besides others. */
  readonly texts: TextsByMember;
}

/** Texts that mean something to the service, by the names of members that they may stand for. */
export type TextsByMember = ReadonlyMap<string, readonly string[]>;

/** Members that objects have by nature, and others that code may stumble over. */
export const ODD_MEMBERS = ['__proto__', 'constructor', 'toString', 'hasOwnProperty', '', '0', 'length', 'a.b'];

/** Numbers whose spelling, or size, a double does not carry. */
const ODD_NUMBERS = [
  '9223372036854775807',
  '1e999',
  '-1E-400',
  '1.0',
  '100e-2',
  '-0',
  '123456789012345678901234567890',
];

/** Any JSON value, numbers beyond doubles included. */
export const anyJson: fc.Arbitrary<unknown> = fc.oneof(
  { weight: 4, arbitrary: fc.jsonValue({ maxDepth: 3 }) },
  { weight: 1, arbitrary: fc.constantFrom(...ODD_NUMBERS).map((text) => JSON.rawJSON(text)) },
);

/** Short words, so that names meet. */
const word = fc.string({ unit: fc.constantFrom('a', 'b', 'c', '-'), minLength: 1, maxLength: 3 });

/** Makes arbitraries of JSON Schemas: values that fit the schema, except where what is known does not. */
export class Arbitraries {
  readonly #sources: Sources;

  constructor(sources: Sources) {
    this.#sources = sources;
  }

  /** The schema itself, where one refers to another. */
  resolve(schema: JsonObject): JsonObject {
    return this.#sources.document.resolve(schema);
  }

  /** Values of a schema. */
  of(given: JsonObject): fc.Arbitrary<unknown> {
    const schema = this.resolve(given);
    if ('const' in schema) return fc.constant(schema.const);
    if (Array.isArray(schema.enum)) return fc.constantFrom(...schema.enum);
    const choices = schema.anyOf ?? schema.oneOf;
    if (Array.isArray(choices)) {
      const { anyOf: _, oneOf: __, ...beside } = schema;
      return fc.oneof(...choices.filter(isObject).map((choice) => this.of(both(beside, this.resolve(choice)))));
    }
    if (Array.isArray(schema.type)) return fc.oneof(...schema.type.map((type) => this.of({ ...schema, type })));
    switch (schema.type) {
      case 'string':
        return this.#text(schema);
      case 'integer':
        return fc.integer({ min: number(schema.minimum, -(2 ** 31)), max: number(schema.maximum, 2 ** 31 - 1) });
      case 'number':
        return fc.double({ min: number(schema.minimum, -1e300), max: number(schema.maximum, 1e300), noNaN: true });
      case 'boolean':
        return fc.boolean();
      case 'null':
        return fc.constant(null);
      case 'array':
        return fc.array(this.of(isObject(schema.items) ? schema.items : {}), {
          minLength: number(schema.minItems, 0),
          maxLength: number(schema.maxItems, 4),
        });
      case 'object':
        return this.#object(schema);
      default:
        return anyJson;
    }
  }

  #text(schema: JsonObject): fc.Arbitrary<string> {
    const { uris } = this.#sources;
    if (schema.format === 'ipv6') return fc.ipV6();
    if (schema.format === 'uri') {
      const path = fc.oneof(
        { weight: 3, arbitrary: fc.constant('') },
        { weight: 1, arbitrary: fc.webPath({ size: 'small' }) },
        { weight: 1, arbitrary: fc.webQueryParameters({ size: 'small' }).map((query) => `?${query}`) },
      );
      return fc.tuple(fc.constantFrom(...uris), path).map((parts) => parts.join(''));
    }
    const minLength = number(schema.minLength, 0);
    const maxLength = number(schema.maxLength, 2 ** 16);
    const plain = [
      word,
      fc.string({ unit: 'grapheme', minLength, maxLength }),
      fc.string({ unit: 'binary', minLength, maxLength }),
    ];
    if (typeof schema.pattern !== 'string') return fc.oneof(...plain);
    const pattern = new RegExp(schema.pattern, 'u');
    const fitting = fc.oneof({ weight: 1, arbitrary: word }, { weight: 3, arbitrary: fc.stringMatching(pattern) });
    return fitting.filter((text) => {
      const { length } = [...text];
      return length >= minLength && length <= maxLength && pattern.test(text) && text.isWellFormed();
    });
  }

  #object(schema: JsonObject): fc.Arbitrary<unknown> {
    const properties = isObject(schema.properties) ? schema.properties : {};
    const required = Array.isArray(schema.required) ? schema.required : [];
    const declared = Object.entries(properties).map(([name, property]) => {
      const value = this.#member(name, isObject(property) ? property : {});
      return (required.includes(name) ? value : fc.option(value, { nil: undefined })).map(
        (made) => [name, made] as const,
      );
    });
    const further = isObject(schema.additionalProperties) ? this.of(schema.additionalProperties) : anyJson;
    const mostFurther = schema.additionalProperties === false ? 0 : Object.keys(properties).length > 0 ? 2 : 4;
    const name = fc.oneof(fc.string({ unit: 'grapheme' }), fc.constantFrom(...ODD_MEMBERS));
    return fc
      .tuple(
        fc.uniqueArray(fc.tuple(name, further), { selector: ([key]) => key, maxLength: mostFurther, size: 'small' }),
        fc.tuple(...declared),
        // Half of them have no more than they must.
        fc.boolean(),
      )
      .map(([added, own, sparse]) => {
        const kept = own.filter(([key, value]) => value !== undefined && (!sparse || required.includes(key)));
        return Object.fromEntries(sparse ? kept : [...added, ...kept]);
      });
  }

  /** A member of an object: a fresh value, or one that the service is known to have. */
  #member(name: string, schema: JsonObject): fc.Arbitrary<unknown> {
    const { type, format } = this.resolve(schema);
    if (type !== 'string') return this.of(schema);
    const texts = format === 'uri' ? [] : (this.#sources.texts.get(name) ?? []);
    // More often than not, since behind one that is made up there is nobody to answer.
    const given = texts.map((text) => ({ weight: 2, arbitrary: fc.constant(text) }));
    const fresh = fc.oneof({ weight: 1, arbitrary: this.of(schema) }, ...given);
    // What others have under this name may be no URI: there would be few forwards left that can be refreshed.
    const known = format === 'uri' ? fc.constant(null) : fc.option(fc.nat(), { freq: 2 });
    return fc
      .tuple(fresh, known)
      .map(([made, index]) => (index === null ? undefined : this.#sources.known(name, index)) ?? made);
  }
}

/** A schema that says what two say, as far as one of them adds to the other. */
function both(one: JsonObject, other: JsonObject): JsonObject {
  const required = [one.required, other.required].flat().filter((name) => name !== undefined);
  return { ...one, ...other, ...(required.length > 0 && { required }) };
}

function number(value: unknown, otherwise: number): number {
  return typeof value === 'number' ? value : otherwise;
}
