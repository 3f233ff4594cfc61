import type { Evaluator, Labels, ServiceInput } from '@sluice/contract';
import { identical } from '@sluice/protocol/json/equal';
import type { JsonObject, JsonValue } from '@sluice/protocol/json/parse';
import type { CurrentService } from './current-state.ts';
import type { DesiredForward, Overrides } from './desired-state.ts';

/** A changed member. */
export interface Change {
  readonly member: string;
  /** Undefined when the member is new or its value is not known yet. */
  readonly from?: JsonValue | undefined;
  readonly to?: JsonValue | undefined;
}

/** Entries in a namespace that no other step removes from it. */
export interface NamespaceContents {
  readonly tools: number;
  readonly resources: number;
  readonly prompts: number;
  readonly forwards: number;
}

/** One step of a plan. */
export type Step = (NamespaceStep | ForwardStep | ServiceStep | ToolStep | OverrideStep | EvaluatorStep) & {
  /** Changed members; empty for deletions. */
  readonly changes: readonly Change[];
  /** How the step widens the reach of agents; undefined if it does not. */
  readonly widens?: readonly string[];
  /** Additional information to show before the confirmation, one line each. */
  readonly notes: readonly string[];
};

export type NamespaceStep =
  | { readonly kind: 'namespace'; readonly action: 'create' | 'update'; readonly name: string; readonly labels: Labels }
  | {
      readonly kind: 'namespace';
      readonly action: 'delete';
      readonly name: string;
      readonly contents: NamespaceContents;
    };

export type ForwardStep =
  | {
      readonly kind: 'forward';
      /** `rename` gives it another prefix temporarily, so that other tools can take the names of its own. */
      readonly action: 'create' | 'update' | 'rename';
      readonly name: string;
      readonly forward: DesiredForward;
    }
  | { readonly kind: 'forward'; readonly action: 'delete'; readonly name: string };

export type ServiceStep =
  | {
      readonly kind: 'service';
      readonly action: 'create' | 'update';
      readonly name: string;
      readonly entry: ServiceInput;
    }
  | {
      readonly kind: 'service';
      readonly action: 'delete';
      readonly name: string;
      readonly entry: CurrentService;
      /** Other entries with its name and type, which the API deletes along with it. */
      readonly reregister: readonly ServiceInput[];
    };

/** A manually registered tool. */
export type ToolStep =
  | {
      readonly kind: 'tool';
      readonly action: 'create' | 'update';
      readonly namespace: string;
      readonly name: string;
      readonly members: JsonObject;
    }
  | { readonly kind: 'tool'; readonly action: 'delete'; readonly namespace: string; readonly name: string };

/** Steps with the same list are one request. */
export interface EvaluatorStep {
  readonly kind: 'evaluator';
  readonly action: 'create' | 'update' | 'delete';
  readonly name: string;
  /** All evaluators after these steps. */
  readonly list: readonly Evaluator[];
}

/** A discovered tool. Its current name is looked up when the step runs. */
export interface OverrideStep {
  readonly kind: 'override';
  /** `rename` renames the tool temporarily, so that another tool can take its name. */
  readonly action: 'update' | 'rename';
  readonly forward: string;
  readonly upstreamName: string;
  /** Its name at present, or the one that it will be discovered under. */
  readonly name: string;
  readonly namespace: string;
  readonly wanted: Overrides;
  /** Position in the state file; undefined when the step reverts overrides. */
  readonly position: (() => string) | undefined;
}

/** Steps that create or change entries, and steps that delete them. */
export interface PlannedSteps {
  readonly upserts: Step[];
  readonly deletions: Step[];
}

/**
 * Returns the members that differ: first those of `to` in its order, then removed ones. Compares numbers by notation.
 */
export function diffMembers(from: JsonObject, to: JsonObject): Change[] {
  const [old, next] = [new Map(Object.entries(from)), new Map(Object.entries(to))];
  const changed = [...next].filter(([member, value]) => !isSame(old.get(member), value));
  const removed = [...old].filter(([member]) => !next.has(member));
  return [
    ...changed.map(([member, value]) => ({ member, from: old.get(member), to: value })),
    ...removed.map(([member, value]) => ({ member, from: value })),
  ];
}

/** Returns the members of a new entry, without empty maps. */
export function initialMembers(members: JsonObject): Change[] {
  return diffMembers({}, members).filter(({ to }) => JSON.stringify(to) !== '{}');
}

function isSame(a: JsonValue | undefined, b: JsonValue): boolean {
  return a !== undefined && identical(a, b);
}

/** Formats the contents of a namespace: `2 tools, 1 forward`; empty for none. */
export function formatNamespaceContents(contents: Readonly<Record<string, JsonValue>>): string {
  const present = Object.entries(contents).filter(([, count]) => typeof count === 'number' && count > 0);
  return present.map(([what, count]) => `${count} ${count === 1 ? what.slice(0, -1) : what}`).join(', ');
}
