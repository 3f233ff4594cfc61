import { identical } from '@sluice/json/equal';
import type { JsonObject, JsonValue } from '@sluice/json/lossless';
import type { Change } from './step.ts';

/** The members that differ, in the order of `to`, then those that go. The spelling of numbers counts. */
export function changesBetween(from: JsonObject, to: JsonObject): Change[] {
  const [old, next] = [new Map(Object.entries(from)), new Map(Object.entries(to))];
  const changed = [...next].filter(([member, value]) => !same(old.get(member), value));
  const gone = [...old].filter(([member]) => !next.has(member));
  return [
    ...changed.map(([member, value]) => ({ member, from: old.get(member), to: value })),
    ...gone.map(([member, value]) => ({ member, from: value })),
  ];
}

/** What something new has, but empty maps, which say nothing. */
export function changesOfNew(members: JsonObject): Change[] {
  return changesBetween({}, members).filter(({ to }) => JSON.stringify(to) !== '{}');
}

function same(a: JsonValue | undefined, b: JsonValue): boolean {
  return a !== undefined && identical(a, b);
}
