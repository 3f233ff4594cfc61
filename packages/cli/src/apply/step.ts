import type { Labels, ServiceInput } from '@sluice/contract';
import { identical } from '@sluice/protocol/json/equal';
import type { JsonObject, JsonValue } from '@sluice/protocol/json/parse';
import type { CurrentService } from './current-state.ts';
import type { DesiredForward, Overrides } from './desired-state.ts';

/** One member that differs. */
export interface Change {
  readonly member: string;
  /** Undefined where there is nothing, or where it is not known yet. */
  readonly from?: JsonValue | undefined;
  readonly to?: JsonValue | undefined;
}

/** What is in a namespace that nothing else of the plan takes out of it. */
export interface NamespaceContents {
  readonly tools: number;
  readonly resources: number;
  readonly prompts: number;
  readonly forwards: number;
}

/** What to do with one thing. */
export type Step = (NamespaceStep | ForwardStep | ServiceStep | ToolStep | OverrideStep) & {
  /** Members that the step changes. Empty when all of it goes. */
  readonly changes: readonly Change[];
  /** What else people should know before they agree, a line each. */
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
      readonly action: 'create' | 'replace';
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
      /** Others of its name and type, which the API deletes along with it. */
      readonly reregister: readonly ServiceInput[];
    };

/** A hand-made tool. */
export type ToolStep =
  | {
      readonly kind: 'tool';
      readonly action: 'create' | 'update';
      readonly namespace: string;
      readonly name: string;
      readonly members: JsonObject;
    }
  | { readonly kind: 'tool'; readonly action: 'delete'; readonly namespace: string; readonly name: string };

/** A discovered tool. What it is called when the step's turn comes is looked up then. */
export interface OverrideStep {
  readonly kind: 'override';
  /** `park`: it gives its name up for a while, so that another one can take it. */
  readonly action: 'update' | 'park';
  readonly forward: string;
  readonly upstreamName: string;
  /** Its name at present, or the one that it will be discovered under. */
  readonly name: string;
  readonly namespace: string;
  readonly wanted: Overrides;
  /** Where the file says so; undefined for what takes changes back. */
  readonly position: (() => string) | undefined;
}

/** Steps that make things, and steps that take things away. */
export interface PlannedSteps {
  readonly upserts: Step[];
  readonly deletions: Step[];
}

/** The members that differ, in the order of `to`, then those that go. The spelling of numbers counts. */
export function diffMembers(from: JsonObject, to: JsonObject): Change[] {
  const [old, next] = [new Map(Object.entries(from)), new Map(Object.entries(to))];
  const changed = [...next].filter(([member, value]) => !isSame(old.get(member), value));
  const gone = [...old].filter(([member]) => !next.has(member));
  return [
    ...changed.map(([member, value]) => ({ member, from: old.get(member), to: value })),
    ...gone.map(([member, value]) => ({ member, from: value })),
  ];
}

/** What something new has, but empty maps, which say nothing. */
export function initialMembers(members: JsonObject): Change[] {
  return diffMembers({}, members).filter(({ to }) => JSON.stringify(to) !== '{}');
}

function isSame(a: JsonValue | undefined, b: JsonValue): boolean {
  return a !== undefined && identical(a, b);
}

/** What is in a namespace: `2 tools, 1 forward`; empty for nothing. */
export function formatNamespaceContents(contents: Readonly<Record<string, JsonValue>>): string {
  const held = Object.entries(contents).filter(([, count]) => typeof count === 'number' && count > 0);
  return held.map(([what, count]) => `${count} ${count === 1 ? what.slice(0, -1) : what}`).join(', ');
}
