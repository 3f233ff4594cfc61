import fc from 'fast-check';
import { parse, stringify } from 'yaml';
import { KEYS, LEAVES } from './mutant-words.fixture.ts';

type Kind = 'replace' | 'remove' | 'rename' | 'add' | 'double' | 'move' | 'graft';

interface TreeEdit {
  readonly kind: Kind;
  /** Which of the places, which other one; both are taken modulo their number. */
  readonly at: number;
  readonly to: number;
  readonly leaf: unknown;
  readonly key: string;
}

const treeEdit: fc.Arbitrary<TreeEdit> = fc.record({
  kind: fc.constantFrom<Kind[]>('replace', 'replace', 'replace', 'remove', 'rename', 'add', 'double', 'move', 'graft'),
  at: fc.nat(),
  to: fc.nat(),
  leaf: fc.oneof(
    { weight: 5, arbitrary: fc.constantFrom(...LEAVES) },
    { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 2 }) },
  ),
  key: fc.constantFrom(...KEYS),
});

/** A changed file as plain values, and a text of it. */
export interface TreeMutant {
  readonly values: unknown;
  /** As JSON, which no reading of YAML can mistake, or as YAML. */
  readonly text: string;
}

/** The file with one to three of its values changed, removed, renamed, added, doubled or moved. */
export function treeMutants(text: string): fc.Arbitrary<TreeMutant> {
  const original: unknown = parse(text);
  return fc.tuple(fc.array(treeEdit, { minLength: 1, maxLength: 3 }), fc.boolean()).map(([edits, yaml]) => {
    const top = new Map<string, unknown>([['file', structuredClone(original)]]);
    for (const edit of edits) change(top, edit);
    const values = plain(top.get('file'));
    return { values, text: yaml ? stringify(values) : JSON.stringify(values) };
  });
}

/** A place that something stands in. */
interface Place {
  readonly parent: Map<string, unknown> | unknown[] | object;
  readonly key: string;
  readonly value: unknown;
}

function change(top: Map<string, unknown>, { kind, at, to, leaf, key }: TreeEdit): void {
  const root = Object.fromEntries(top);
  const places = placesIn(root);
  const place = places[at % places.length];
  const other = places[to % places.length];
  if (!place || !other) return;
  const { parent, key: own, value } = place;
  const put = (where: string, what: unknown) => void Reflect.set(parent, where, structuredClone(what));
  switch (kind) {
    case 'replace':
      put(own, leaf);
      break;
    case 'graft':
      put(own, other.value);
      break;
    case 'remove':
      if (Array.isArray(parent)) parent.splice(Number(own), 1);
      else Reflect.deleteProperty(parent, own);
      break;
    case 'rename':
      if (Array.isArray(parent)) break;
      Reflect.deleteProperty(parent, own);
      define(parent, key, value);
      break;
    case 'add':
      if (Array.isArray(parent)) parent.push(structuredClone(leaf));
      else define(parent, key, structuredClone(leaf));
      break;
    case 'double':
      if (Array.isArray(parent)) parent.splice(Number(own), 0, structuredClone(value));
      break;
    case 'move':
      if (Array.isArray(parent)) parent.unshift(...parent.splice(Number(own), 1));
  }
  top.set('file', root.file);
}

/** `__proto__` too is to be a key like others. */
function define(parent: object, key: string, value: unknown): void {
  Object.defineProperty(parent, key, { value, enumerable: true, configurable: true, writable: true });
}

function placesIn(parent: object): Place[] {
  return Object.entries(parent).flatMap(([key, value]) => [
    { parent, key, value },
    ...(typeof value === 'object' && value !== null ? placesIn(value) : []),
  ]);
}

/** As a file can say it. */
function plain(value: unknown): unknown {
  return value === undefined ? null : JSON.parse(JSON.stringify(value));
}
