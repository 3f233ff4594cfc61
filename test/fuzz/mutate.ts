import fc from 'fast-check';
import { anyJson, UNUSUAL_MEMBERS } from './arbitrary.ts';
import { isObject, type JsonObject } from './document.ts';

/** Values that replace an expected one. */
const unexpected: fc.Arbitrary<unknown> = fc.oneof(
  fc.constantFrom<unknown>(null, true, '', ' ', '\t\n', 0, -1, 1.5, 65_536, 2 ** 53, [], {}, [[]], [null]),
  fc.constantFrom<unknown>(
    '\ud800',
    'a\udc00b',
    '\u0000',
    'a\u0007b',
    '\u0085',
    '\u200b\ufeff',
    '..',
    '../../x',
    '%2F',
  ),
  fc.constantFrom(1, 300).map((times) => nested(times)),
  fc.constantFrom(64, 257, 70_000).map((length) => 'x'.repeat(length)),
  anyJson,
);

/** Changes of a string. */
const rewritten = fc.constantFrom<(text: string) => unknown>(
  (text) => ` ${text} `,
  (text) => `${text}\n`,
  (text) => `${text}\u0000`,
  (text) => `-${text}`,
  (text) => `${text}é`,
  (text) => text.toUpperCase(),
  (text) => text.repeat(300),
  (text) => [text],
  (text) => ({ [text]: text }),
);

type Path = readonly (string | number)[];

/**
 * Bodies with one or two mutations: a member removed, of another type or out of bounds, or an additional member. `declared`
 * are the members of the schema.
 */
export function mutated(bodies: fc.Arbitrary<unknown>, declared: readonly string[]): fc.Arbitrary<unknown> {
  const once = fc.tuple(
    fc.nat(),
    fc.oneof(
      { weight: 5, arbitrary: unexpected.map((value) => () => value) },
      { weight: 2, arbitrary: fc.constant(() => undefined) },
      {
        weight: 3,
        arbitrary: rewritten.map((rewrite) => (old: unknown) => (typeof old === 'string' ? rewrite(old) : [old])),
      },
    ),
  );
  const extra = fc.option(fc.tuple(fc.constantFrom(...UNUSUAL_MEMBERS), anyJson), { freq: 4 });
  return fc.tuple(bodies, fc.array(once, { minLength: 1, maxLength: 2 }), extra).map(([body, changes, added]) => {
    let changed = body;
    for (const [index, change] of changes) {
      const paths = [...pathsIn(changed), ...declared.map((member) => [member]), []];
      changed = replace(changed, paths[index % paths.length] ?? [], change);
    }
    return added !== null && isObject(changed) ? Object.fromEntries([...Object.entries(changed), added]) : changed;
  });
}

/** Paths of all values within a value, up to four levels deep. */
function pathsIn(value: unknown, at: Path = []): Path[] {
  if (at.length > 4 || typeof value !== 'object' || value === null || JSON.isRawJSON(value)) return [];
  const members: (readonly [string | number, unknown])[] = Array.isArray(value)
    ? value.map((item, index) => [index, item])
    : Object.entries(value);
  return members.flatMap(([key, member]) => [[...at, key], ...pathsIn(member, [...at, key])]);
}

/** Copies the value with a change at the path; undefined removes the member. */
function replace(value: unknown, [key, ...inner]: Path, change: (old: unknown) => unknown): unknown {
  if (key === undefined) return change(value) ?? null;
  if (Array.isArray(value)) return value.map((item, index) => (index === key ? replace(item, inner, change) : item));
  const object: JsonObject = isObject(value) ? value : {};
  const members = new Map(Object.entries(object));
  const old = members.get(String(key));
  members.set(String(key), inner.length === 0 ? change(old) : replace(old, inner, change));
  return Object.fromEntries([...members].filter(([, member]) => member !== undefined));
}

function nested(levels: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < levels; level++) value = level % 2 === 0 ? { a: value } : [value];
  return value;
}
