import type { Evaluator, MemberChange, StateChange } from '@sluice/contract';
import type { JsonObject } from '@sluice/protocol/json/parse';
import { diffMembers, initialMembers } from '../registry/state-difference.ts';

/** The evaluators of a desired state, compared with the present ones. */
export interface EvaluatorDifference {
  readonly changes: readonly StateChange[];
  /** All evaluators before the deletions; undefined if the present ones stay as they are. */
  readonly updated: readonly Evaluator[] | undefined;
  /** All evaluators after the deletions; undefined without any. */
  readonly remaining: readonly Evaluator[] | undefined;
}

/**
 * Compares evaluators by name. They run in the order of the list: wanted ones take the places of the present ones with their names,
 * in their own order; the rest of them is appended. With `prune`, all others are deleted.
 */
export function compareEvaluators(
  wanted: readonly Evaluator[],
  present: readonly Evaluator[],
  prune: boolean,
): EvaluatorDifference {
  const names = new Set(wanted.map(({ name }) => name));
  const known = new Map(present.map((evaluator) => [evaluator.name, evaluator]));
  const next = wanted.values();
  const merged = present.map((evaluator) => (names.has(evaluator.name) ? (next.next().value ?? evaluator) : evaluator));
  const list = [...merged, ...next];

  const places = placesOf(list.filter(({ name }) => known.has(name)));
  const before = placesOf(present);
  const upserts = wanted.flatMap((evaluator): StateChange[] => {
    const { name } = evaluator;
    const old = known.get(name);
    const change = { kind: 'evaluator', name, notes: [] } as const;
    if (!old) return [{ ...change, action: 'create', members: initialMembers(flat(evaluator)) }];
    const [from, to] = [before.get(name), places.get(name)];
    const moved: MemberChange[] = from === to ? [] : [{ member: 'position', from, to }];
    const members = [...diffMembers(flat(old), flat(evaluator)), ...moved];
    if (members.length === 0) return [];
    const widens = members.some(isLoosening) && { widens: ['may loosen an evaluator'] };
    return [{ ...change, action: 'update', members, ...widens }];
  });
  const deletions = prune ? present.filter(({ name }) => !names.has(name)) : [];
  return {
    changes: [...upserts, ...deletions.map(({ name }) => deletionOf(name))],
    updated: upserts.length > 0 ? list : undefined,
    remaining: deletions.length > 0 ? list.filter(({ name }) => names.has(name)) : undefined,
  };
}

function deletionOf(name: string): StateChange {
  const notes = ['requests that it would block are not blocked any more'];
  return { kind: 'evaluator', action: 'delete', name, members: [], widens: ['removes an evaluator'], notes };
}

/** Positions by name, from 1. */
function placesOf(list: readonly Evaluator[]): ReadonlyMap<string, number> {
  return new Map(list.map(({ name }, index) => [name, index + 1]));
}

/** Members of an evaluator without nesting and null, so that a change of one shows only that one. */
function flat({ name, trigger, llm, processor, on_error }: Evaluator): JsonObject {
  const nested = Object.entries({ trigger, llm, processor }).flatMap(([group, members]) =>
    Object.entries(members).flatMap(([member, value]) => (value === null ? [] : [[`${group}.${member}`, value]])),
  );
  return { name, ...Object.fromEntries(nested), on_error };
}

/** False for changes of evaluators that let no request pass which was rejected before. */
function isLoosening({ member, to }: MemberChange): boolean {
  if (member === 'position') return false;
  if (member === 'on_error') return to !== 'block';
  // Without a namespace it evaluates the requests of all.
  return member !== 'trigger.namespace' || to !== undefined;
}
