import fc from 'fast-check';
import type { Arbitraries } from './arbitrary.ts';
import type { JsonObject, Operation } from './document.ts';
import type { Pool } from './pool.ts';

/** Segments for malformed paths. */
const UNUSUAL_SEGMENTS = [
  ...['%2F', '%2f..%2f', '..%2f..%2fetc%2fpasswd', '..', '.', '%2e%2e', '%00', '%0d%0aX:y', '%20', '%7f', '%C2%85'],
  ...['%', '%2', '%ZZ', '%C3%28', '%ED%A0%80', '%C0%80', '%u0041', '%25', '%2525', '%F0%9F%98%80', '+', ';a=b', '$ref'],
  ...['a%2Fb', 'a/b', '', 'default', 'refreshes', '{name}', '*', '&', '=', '"', '<>', '|', '\\', '\xe9', '[]'],
  ...['__proto__', 'constructor'],
];

const UNUSUAL_SUFFIXES = ['/', '//', '/..', '/x', '%2F', '?', '/%', ';'];

const UNUSUAL_QUERIES = [
  ...['unknown=1', 'namespace=', 'namespace=a&namespace=b', 'include=%', 'uri=%ZZ', 'a[b]=c', '__proto__=1', '%00=%00'],
  ...['&&', '=', '?', '+', `x=${'y'.repeat(4_000)}`],
];

/** Paths and queries of an operation for the item with a number, mostly an existing one. */
export function targetsOf(
  { collection, parameters, path }: Operation,
  arbitraries: Arbitraries,
  pool: Pool,
): fc.Arbitrary<(item: number) => string> {
  const names = parameters.filter((parameter) => parameter.in === 'path').map(({ name }) => name);
  const queries = parameters.filter((parameter) => parameter.in === 'query');
  return fc
    .tuple(
      fc.tuple(...names.map(() => segment)),
      fc.tuple(...queries.map(({ schema }) => queryValue(arbitraries, schema))),
      fc.oneof(
        { weight: 30, arbitrary: fc.constant('') },
        { weight: 1, arbitrary: fc.constantFrom(...UNUSUAL_SUFFIXES) },
      ),
      fc.oneof(
        { weight: 12, arbitrary: fc.constant<string[]>([]) },
        { weight: 1, arbitrary: fc.subarray(UNUSUAL_QUERIES, { minLength: 1, maxLength: 3 }) },
      ),
    )
    .map(([segments, values, suffix, further]) => (item) => {
      const known = (name: string) => pool.trait(collection, name, item);
      const filled = names.reduce(
        (template, name, at) => template.replace(`{${name}}`, () => segments[at] ?? encoded(known(name))),
        path,
      );
      const parts = queries.flatMap(({ name }, at) => {
        const value = values[at];
        return value === undefined ? [] : [`${name}=${encoded(value ?? known(name))}`];
      });
      const search = [...parts, ...further].join('&');
      return `${filled}${suffix}${search === '' ? '' : `?${search}`}`;
    });
}

/** An encoded segment for a path parameter; undefined for the item's own value. */
const segment = fc.oneof(
  { weight: 8, arbitrary: fc.constant(undefined) },
  { weight: 1, arbitrary: fc.string({ unit: 'grapheme', minLength: 1 }).map(encoded) },
  { weight: 1, arbitrary: fc.constantFrom(...UNUSUAL_SEGMENTS) },
  {
    weight: 1,
    arbitrary: fc
      .tuple(fc.constantFrom('a', '%41', '%E2%82%AC'), fc.constantFrom(255, 1_100, 4_000))
      .map(([unit, times]) => unit.repeat(times)),
  },
);

/** A value for a query parameter; undefined for none, null for the item's own value. */
function queryValue(arbitraries: Arbitraries, schema: JsonObject): fc.Arbitrary<string | null | undefined> {
  return fc.oneof(
    { weight: 6, arbitrary: fc.constant(undefined) },
    { weight: 4, arbitrary: fc.constant(null) },
    { weight: 1, arbitrary: arbitraries.of(schema).map(String) },
  );
}

/** Encodes a string for a path or a query; lone surrogates are replaced. */
export function encoded(text: string): string {
  return encodeURIComponent(text.toWellFormed());
}
