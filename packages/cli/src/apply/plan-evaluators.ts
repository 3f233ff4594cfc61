import type { Evaluator } from '@sluice/contract';
import type { JsonObject } from '@sluice/protocol/json/parse';
import type { CurrentState } from './current-state.ts';
import type { DesiredState } from './desired-state.ts';
import { type Change, diffMembers, initialMembers, type PlannedSteps, type Step } from './step.ts';

/**
 * Plans the evaluators. The API replaces the whole list, so all upserts are one request, and all deletions are another one
 * at the end: until then deleted evaluators protect what other steps change.
 *
 * Evaluators run in the order of the list. Those of the files take the places of the present ones with their names, in the
 * order of the files; the rest of them is appended.
 */
export function planEvaluators(desired: DesiredState, actual: CurrentState, prune: boolean): PlannedSteps {
  const wanted = desired.evaluators.map(({ definition }) => definition);
  const names = new Set(wanted.map(({ name }) => name));
  const present = actual.evaluators.list;
  const known = new Map(present.map((evaluator) => [evaluator.name, evaluator]));
  const next = wanted.values();
  const merged = present.map((evaluator) => (names.has(evaluator.name) ? (next.next().value ?? evaluator) : evaluator));
  const list = [...merged, ...next];

  const places = placesOf(list.filter(({ name }) => known.has(name)));
  const before = placesOf(present);
  const upserts = wanted.flatMap((evaluator): Step[] => {
    const { name } = evaluator;
    const old = known.get(name);
    const step = { kind: 'evaluator', name, list, notes: [] } as const;
    if (!old) return [{ ...step, action: 'create', changes: initialMembers(evaluatorMembers(evaluator)) }];
    const [from, to] = [before.get(name), places.get(name)];
    const moved: Change[] = from === to ? [] : [{ member: 'position', from, to }];
    const changes = [...diffMembers(evaluatorMembers(old), evaluatorMembers(evaluator)), ...moved];
    return changes.length === 0 ? [] : [{ ...step, action: 'update', changes }];
  });
  if (!prune) return { upserts, deletions: [] };
  const remaining = list.filter(({ name }) => names.has(name));
  const deletions = present
    .filter(({ name }) => !names.has(name))
    .map(({ name }): Step => {
      const notes = ['requests that it would block are not blocked any more'];
      return { kind: 'evaluator', action: 'delete', name, list: remaining, changes: [], notes };
    });
  return { upserts, deletions };
}

/** Positions by name, from 1. */
function placesOf(list: readonly Evaluator[]): ReadonlyMap<string, number> {
  return new Map(list.map(({ name }, index) => [name, index + 1]));
}

/** Members of an evaluator without nesting, so that a change of one shows only that one. */
function evaluatorMembers({ name, trigger, llm, processor, on_error }: Evaluator): JsonObject {
  return {
    name,
    'trigger.method': trigger.method,
    ...(trigger.namespace !== null && { 'trigger.namespace': trigger.namespace }),
    'llm.operation': llm.operation,
    'llm.prompt': llm.prompt,
    'llm.connection': llm.connection,
    ...(llm.result_schema !== null && { 'llm.result_schema': llm.result_schema }),
    'processor.path': processor.path,
    on_error,
  };
}

/** Converts an evaluator to the form of a state file, without default values. */
export function evaluatorEntry({ name, trigger, llm, processor, on_error }: Evaluator): JsonObject {
  const { method, namespace } = trigger;
  const { operation, prompt, connection, result_schema } = llm;
  return {
    name,
    trigger: { method, ...(namespace !== null && { namespace }) },
    llm: { operation, prompt, connection, ...(result_schema !== null && { result_schema }) },
    processor: { path: processor.path },
    ...(on_error !== 'continue' && { on_error }),
  };
}
