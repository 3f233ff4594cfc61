import fc from 'fast-check';
import { anyCharacter } from '../fixtures/any-character.ts';
import { type ApiDocument, isObject, type JsonObject } from './document.ts';

/** Inputs of {@link Arbitraries}. */
export interface Sources {
  readonly document: ApiDocument;
  /** Returns a known value of the service for this member, selected by the number. */
  readonly known: (member: string, number: number) => unknown;
  /** Values for `format: uri`. */
  readonly uris: readonly string[];
  /** Additional values for members of these names. */
  readonly texts: TextsByMember;
}

/** Meaningful strings by member name. */
export type TextsByMember = ReadonlyMap<string, readonly string[]>;

/** Member names of the object prototype, and others that are prone to errors. */
export const UNUSUAL_MEMBERS = ['__proto__', 'constructor', 'toString', 'hasOwnProperty', '', '0', 'length', 'a.b'];

/** Numbers whose notation or value a double cannot represent. */
const UNUSUAL_NUMBERS = [
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
  { weight: 1, arbitrary: fc.constantFrom(...UNUSUAL_NUMBERS).map((text) => JSON.rawJSON(text)) },
);

/** Short names, so that collisions occur. */
const shortName = fc.string({ unit: fc.constantFrom('a', 'b', 'c', '-'), minLength: 1, maxLength: 3 });

/** Creates arbitraries of JSON Schemas: values that match the schema, except for known values that do not. */
export class Arbitraries {
  readonly #sources: Sources;

  constructor(sources: Sources) {
    this.#sources = sources;
  }

  /** Resolves the reference of a schema, if it is one. */
  resolve(schema: JsonObject): JsonObject {
    return this.#sources.document.resolve(schema);
  }

  /** Returns values that match a schema. */
  of(given: JsonObject): fc.Arbitrary<unknown> {
    const schema = this.resolve(given);
    if ('const' in schema) return fc.constant(schema.const);
    if (Array.isArray(schema.enum)) return fc.constantFrom(...schema.enum);
    const choices = schema.anyOf ?? schema.oneOf;
    if (Array.isArray(choices)) {
      const { anyOf: _, oneOf: __, ...siblings } = schema;
      return fc.oneof(...choices.filter(isObject).map((choice) => this.of(merge(siblings, this.resolve(choice)))));
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
      shortName,
      fc.string({ unit: 'grapheme', minLength, maxLength }),
      fc.string({ unit: anyCharacter, minLength, maxLength }),
    ];
    if (typeof schema.pattern !== 'string') return fc.oneof(...plain);
    const pattern = new RegExp(schema.pattern, 'u');
    const matching = fc.oneof(
      { weight: 1, arbitrary: shortName },
      { weight: 3, arbitrary: fc.stringMatching(withoutLookaheads(pattern)) },
    );
    return matching.filter((text) => {
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
    const additional = isObject(schema.additionalProperties) ? this.of(schema.additionalProperties) : anyJson;
    const maxFurther = schema.additionalProperties === false ? 0 : Object.keys(properties).length > 0 ? 2 : 4;
    const name = fc.oneof(fc.string({ unit: 'grapheme' }), fc.constantFrom(...UNUSUAL_MEMBERS));
    return fc
      .tuple(
        fc.uniqueArray(fc.tuple(name, additional), { selector: ([key]) => key, maxLength: maxFurther, size: 'small' }),
        fc.tuple(...declared),
        // Half of them have the required members only.
        fc.boolean(),
      )
      .map(([added, own, sparse]) => {
        const members = own.filter(([key, value]) => value !== undefined && (!sparse || required.includes(key)));
        return Object.fromEntries(sparse ? members : [...added, ...members]);
      });
  }

  /** A member of an object: a generated value, or a known one of the service. */
  #member(name: string, schema: JsonObject): fc.Arbitrary<unknown> {
    const { type, format } = this.resolve(schema);
    if (type !== 'string') return this.of(schema);
    const texts = format === 'uri' ? [] : (this.#sources.texts.get(name) ?? []);
    // Weighted, since generated addresses are unreachable.
    const given = texts.map((text) => ({ weight: 2, arbitrary: fc.constant(text) }));
    const fresh = fc.oneof({ weight: 1, arbitrary: this.of(schema) }, ...given);
    // Known values may not be URIs: few forwards could be refreshed.
    const known = format === 'uri' ? fc.constant(null) : fc.option(fc.nat(), { freq: 2 });
    return fc
      .tuple(fresh, known)
      .map(([made, index]) => (index === null ? undefined : this.#sources.known(name, index)) ?? made);
  }
}

/** Merges two schemas. */
function merge(one: JsonObject, other: JsonObject): JsonObject {
  const required = [one.required, other.required].flat().filter((name) => name !== undefined);
  return { ...one, ...other, ...(required.length > 0 && { required }) };
}

function number(value: unknown, otherwise: number): number {
  return typeof value === 'number' ? value : otherwise;
}

/** Texts are not generated from lookaheads; those that violate one are filtered out. */
function withoutLookaheads({ source, flags }: RegExp): RegExp {
  return new RegExp(source.replace(/\(\?[=!][^()]*\)/g, ''), flags);
}
