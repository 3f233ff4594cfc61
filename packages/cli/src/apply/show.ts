import type { JsonObject, JsonValue } from '@sluice/protocol/json/parse';
import { explain } from '../connection/explain.ts';
import { harmlessLine } from '../terminal/harmless.ts';
import type { Style } from '../terminal/style.ts';
import type { Outcome } from './execute.ts';
import type { Change, Step } from './step.ts';

const SIGNS = { create: '+', update: '~', park: '~', replace: '±', delete: '-' } as const;
const COLOURS = { create: 'green', update: 'yellow', park: 'yellow', replace: 'yellow', delete: 'red' } as const;
const COUNTED = [
  ['create', 'to create'],
  ['update', 'to change'],
  ['replace', 'to replace'],
  ['delete', 'to delete'],
] as const;

/** The plan for people: a line per step, its changes and notes below it, and how many there are of each kind. */
export function planText(steps: readonly Step[], style: Style): string {
  const lines = steps.flatMap((step) => [
    style(COLOURS[step.action], `${SIGNS[step.action]} ${subject(step)}`),
    ...step.changes.filter(says(step)).map((change) => `    ${changeLine(change, step.action === 'create')}`),
    ...step.notes.map((note) => `    (${harmlessLine(note)})`),
  ]);
  return [...lines, '', summary(steps), ''].join('\n');
}

/** What a new thing is called stands in the line above. */
function says(step: Step): (change: Step['changes'][number]) => boolean {
  return ({ member }) =>
    step.action !== 'create' ||
    (member !== 'name' && member !== 'namespace') ||
    (step.kind === 'forward' && member === 'namespace');
}

/** `3 changes: 1 to create, 2 to delete`. */
function summary(steps: readonly Step[]): string {
  const counts = COUNTED.map(([action, words]) => {
    const count = steps.filter(
      (step) => step.action === action || (action === 'update' && step.action === 'park'),
    ).length;
    return count === 0 ? '' : `${count} ${words}`;
  });
  return `${steps.length} ${steps.length === 1 ? 'change' : 'changes'}: ${counts.filter(Boolean).join(', ')}`;
}

/** The plan for programs: `{changes: [{action, kind, name, ..., members: [{member, from, to}], notes}]}`. */
export function planJson(steps: readonly Step[]): { changes: JsonObject[] } {
  return { changes: steps.map(stepJson) };
}

/** One step for programs. Values are whole, but without the secrets in them. */
function stepJson(step: Step): JsonObject {
  const members = step.changes.map(({ member, from, to }): JsonObject => ({ member, ...shown(member, { from, to }) }));
  return {
    action: step.action === 'park' ? 'update' : step.action,
    kind: step.kind === 'override' ? 'tool' : step.kind,
    name: step.name,
    ...identity(step),
    members,
    notes: [...step.notes],
  };
}

function identity(step: Step): JsonObject {
  switch (step.kind) {
    case 'namespace':
      return step.action === 'delete' ? { contents: { ...step.contents } } : {};
    case 'forward':
      return {};
    case 'service': {
      const { serviceType, serviceSubType, languageName } = step.entry;
      return {
        serviceType,
        ...(serviceSubType !== undefined && { serviceSubType }),
        ...(languageName !== undefined && { languageName }),
      };
    }
    case 'tool':
      return { namespace: step.namespace };
    case 'override':
      return { namespace: step.namespace, forward: step.forward, upstreamName: step.upstreamName };
  }
}

function shown(member: string, values: Readonly<Record<string, JsonValue | undefined>>): JsonObject {
  return Object.fromEntries(
    Object.entries(values).flatMap(([which, value]) =>
      value === undefined ? [] : [[which, withoutSecrets(member, value)] as const],
    ),
  );
}

const DONE = { create: 'created', update: 'changed', park: 'changed', replace: 'replaced', delete: 'deleted' } as const;

/** A step that has had its turn, or will not have it, on a line for people. Why it failed is told at the end. */
export function outcomeLine(outcome: Outcome, style: Style): string {
  const what = subject(outcome.step);
  switch (outcome.status) {
    case 'done': {
      const notes = outcome.notes.length === 0 ? '' : ` (${harmlessLine(outcome.notes.join('; '))})`;
      return `${style('green', DONE[outcome.step.action])} ${what}${notes}`;
    }
    case 'unchanged':
      return `${style('green', 'as it should be')} ${what}`;
    case 'failed':
      return `${style('red', 'failed')} ${what}`;
    case 'not done':
      return `${style('yellow', 'not done')} ${what}`;
  }
}

/** Which step failed and why, on one line. */
export function failureLine({ step, error }: Failed, host: string): string {
  return `${subject(step)}: ${reason(error, host)}`;
}

type Failed = Extract<Outcome, { status: 'failed' }>;

function reason(error: unknown, host: string): string {
  const { message, notes } = explain(error, host);
  return harmlessLine([message, ...notes].join('; '));
}

/** The report for programs: `{changes: [{..., status, error?}]}`, the status of each being done, unchanged, failed or not done. */
export function reportJson(outcomes: readonly Outcome[], host: string): { changes: JsonObject[] } {
  return {
    changes: outcomes.map((outcome) => ({
      ...stepJson(outcome.step),
      status: outcome.status,
      ...(outcome.status === 'done' && { result: [...outcome.notes] }),
      ...(outcome.status === 'failed' && { error: reason(outcome.error, host) }),
    })),
  };
}

/** What a step is about: `tool say in namespace default`. */
function subject(step: Step): string {
  switch (step.kind) {
    case 'namespace':
    case 'forward':
      return harmlessLine(`${step.kind} ${step.name}`);
    case 'service': {
      const { serviceType, serviceSubType, languageName } = step.entry;
      const key = [serviceType, serviceSubType, languageName].filter((part) => part !== undefined);
      return harmlessLine(`service ${step.name} (${key.join(', ')})`);
    }
    case 'tool':
      return harmlessLine(`tool ${step.name} in namespace ${step.namespace}`);
    case 'override': {
      const theirs = step.name === step.upstreamName ? '' : `, there ${step.upstreamName}`;
      return harmlessLine(`tool ${step.name} in namespace ${step.namespace} (forward ${step.forward}${theirs})`);
    }
  }
}

/** Longest value that is shown whole. */
const LONGEST = 60;

/** One member's change on a line: `labels: {} -> {"team":"a"}`. */
function changeLine({ member, from, to }: Change, isNew: boolean): string {
  const line =
    isNew || (from === undefined && to !== undefined)
      ? `${member}: ${shortened(member, to)}`
      : `${member}: ${shortened(member, from)} -> ${shortened(member, to)}`;
  return harmlessLine(line);
}

function shortened(member: string, value: JsonValue | undefined): string {
  if (value === undefined) return '(none)';
  const text = JSON.stringify(withoutSecrets(member, value));
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}

/** Members that are addresses. Credentials may stand in them, which belong on no screen and in no build log. */
const ADDRESSES = ['address', 'uri', 'configurationURI', 'secretsURI'];

/** The value, of an address without user, password, fragment and the values in its query. */
function withoutSecrets(member: string, value: JsonValue): JsonValue {
  if (typeof value !== 'string' || !ADDRESSES.includes(member)) return value;
  const [, base = '', query, fragment] = /^([^?#]*)(\?[^#]*)?(#.*)?$/s.exec(value) ?? [];
  const parts = query?.slice(1).split('&') ?? [];
  const shown = parts.map((part) => (part.includes('=') ? part.replace(/=.*/s, '=***') : '***')).join('&');
  return (
    base.replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/@]*@/i, '$1***@') +
    (query === undefined ? '' : `?${shown}`) +
    (fragment === undefined ? '' : '#***')
  );
}
