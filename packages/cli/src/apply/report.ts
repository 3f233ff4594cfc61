import type { JsonObject, JsonValue } from '@sluice/protocol/json/parse';
import { counted } from '@sluice/protocol/text';
import { explainError } from '../connection/explain-error.ts';
import type { Style } from '../terminal/terminal.ts';
import { sanitizeLine } from '../terminal/text.ts';
import type { Outcome } from './execute.ts';
import type { Change, Step } from './step.ts';

const SIGNS = { create: '+', update: '~', rename: '~', delete: '-' } as const;
const COLORS = { create: 'green', update: 'yellow', rename: 'yellow', delete: 'red' } as const;
const SUMMARY_TERMS = [
  ['create', 'to create'],
  ['update', 'to change'],
  ['delete', 'to delete'],
] as const;

/** Formats a plan as text: a line per step with its changes and notes, and a summary. */
export function formatPlan(steps: readonly Step[], style: Style): string {
  const lines = steps.flatMap((step) => [
    style(COLORS[step.action], `${SIGNS[step.action]} ${describeStep(step)}`),
    ...step.changes.filter(isListed(step)).map((change) => `    ${formatChange(change, step.action === 'create')}`),
    ...(step.widens ?? []).map((how) => style('red', `    ! widens the reach of agents: ${sanitizeLine(how)}`)),
    ...step.notes.map((note) => `    (${sanitizeLine(note)})`),
  ]);
  return [...lines, '', formatSummary(steps), ''].join('\n');
}

/** The name of a new entry is in the line above. */
function isListed(step: Step): (change: Step['changes'][number]) => boolean {
  return ({ member }) =>
    step.action !== 'create' ||
    (member !== 'name' && member !== 'namespace') ||
    (step.kind === 'forward' && member === 'namespace');
}

/** `3 changes: 1 to create, 2 to delete`. */
function formatSummary(steps: readonly Step[]): string {
  const counts = SUMMARY_TERMS.map(([action, words]) => {
    const count = steps.filter(
      (step) => step.action === action || (action === 'update' && step.action === 'rename'),
    ).length;
    return count === 0 ? '' : `${count} ${words}`;
  });
  return `${counted(steps.length, 'change')}: ${counts.filter(Boolean).join(', ')}`;
}

/** Converts a plan to JSON: `{changes: [{action, kind, name, ..., members: [{member, from, to}], widens?, notes}]}`. */
export function planToJson(steps: readonly Step[]): { changes: JsonObject[] } {
  return { changes: steps.map(stepToJson) };
}

/** Values are complete, except for secrets. */
function stepToJson(step: Step): JsonObject {
  const members = step.changes.map(
    ({ member, from, to }): JsonObject => ({ member, ...redactMember(member, { from, to }) }),
  );
  return {
    action: step.action === 'rename' ? 'update' : step.action,
    kind: step.kind === 'override' ? 'tool' : step.kind,
    name: step.name,
    ...identityMembers(step),
    members,
    ...(step.widens && { widens: [...step.widens] }),
    notes: [...step.notes],
  };
}

function identityMembers(step: Step): JsonObject {
  switch (step.kind) {
    case 'namespace':
      return step.action === 'delete' ? { contents: { ...step.contents } } : {};
    case 'forward':
    case 'evaluator':
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

function redactMember(member: string, values: Readonly<Record<string, JsonValue | undefined>>): JsonObject {
  return Object.fromEntries(
    Object.entries(values).flatMap(([which, value]) =>
      value === undefined ? [] : [[which, redactUrl(member, value)] as const],
    ),
  );
}

const PAST_TENSE = {
  create: 'created',
  update: 'changed',
  rename: 'changed',
  delete: 'deleted',
} as const;

/** Formats the outcome of a step as one line; the error follows at the end of the run. */
export function formatOutcome(outcome: Outcome, style: Style): string {
  const what = describeStep(outcome.step);
  switch (outcome.status) {
    case 'done': {
      const notes = outcome.notes.length === 0 ? '' : ` (${sanitizeLine(outcome.notes.join('; '))})`;
      return `${style('green', PAST_TENSE[outcome.step.action])} ${what}${notes}`;
    }
    case 'unchanged':
      return `${style('green', 'unchanged')} ${what}`;
    case 'failed':
      return `${style('red', 'failed')} ${what}`;
    case 'not done':
      return `${style('yellow', 'not done')} ${what}`;
  }
}

/** Formats a failed step and its error as one line. */
export function formatFailure({ step, error }: FailedOutcome, host: string): string {
  return `${describeStep(step)}: ${failureReason(error, host)}`;
}

type FailedOutcome = Extract<Outcome, { status: 'failed' }>;

function failureReason(error: unknown, host: string): string {
  const { message, notes } = explainError(error, host);
  return sanitizeLine([message, ...notes].join('; '));
}

/**
 * Converts outcomes to JSON: `{changes: [{..., status, error?}]}` with the status done, unchanged, failed or not done.
 */
export function reportToJson(outcomes: readonly Outcome[], host: string): { changes: JsonObject[] } {
  return {
    changes: outcomes.map((outcome) => ({
      ...stepToJson(outcome.step),
      status: outcome.status,
      ...(outcome.status === 'done' && { result: [...outcome.notes] }),
      ...(outcome.status === 'failed' && { error: failureReason(outcome.error, host) }),
    })),
  };
}

/** Describes the entry of a step: `tool say in namespace default`. */
export function describeStep(step: Step): string {
  switch (step.kind) {
    case 'namespace':
    case 'forward':
    case 'evaluator':
      return sanitizeLine(`${step.kind} ${step.name}`);
    case 'service': {
      const { serviceType, serviceSubType, languageName } = step.entry;
      const key = [serviceType, serviceSubType, languageName].filter((part) => part !== undefined);
      return sanitizeLine(`service ${step.name} (${key.join(', ')})`);
    }
    case 'tool':
      return sanitizeLine(`tool ${step.name} in namespace ${step.namespace}`);
    case 'override': {
      const upstreamName = step.name === step.upstreamName ? '' : `, upstream name ${step.upstreamName}`;
      return sanitizeLine(`tool ${step.name} in namespace ${step.namespace} (forward ${step.forward}${upstreamName})`);
    }
  }
}

/** Longer values are truncated. */
const MAX_VALUE_LENGTH = 60;

/** Formats a change: `labels: {} -> {"team":"a"}`. */
function formatChange({ member, from, to }: Change, isNew: boolean): string {
  const line =
    isNew || (from === undefined && to !== undefined)
      ? `${member}: ${formatValue(member, to)}`
      : `${member}: ${formatValue(member, from)} -> ${formatValue(member, to)}`;
  return sanitizeLine(line);
}

function formatValue(member: string, value: JsonValue | undefined): string {
  if (value === undefined) return '(none)';
  const text = JSON.stringify(redactUrl(member, value));
  return text.length > MAX_VALUE_LENGTH ? `${text.slice(0, MAX_VALUE_LENGTH)}…` : text;
}

/** Members that are URLs, which may contain credentials. */
const URL_MEMBERS = ['address', 'uri', 'configurationURI', 'secretsURI'];

/** Removes user, password, fragment and query values from a URL. */
function redactUrl(member: string, value: JsonValue): JsonValue {
  if (typeof value !== 'string' || !URL_MEMBERS.includes(member)) return value;
  const [, base = '', query, fragment] = /^([^?#]*)(\?[^#]*)?(#.*)?$/s.exec(value) ?? [];
  const parts = query?.slice(1).split('&') ?? [];
  const redactMember = parts.map((part) => (part.includes('=') ? part.replace(/=.*/s, '=***') : '***')).join('&');
  return (
    base.replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/@]*@/i, '$1***@') +
    (query === undefined ? '' : `?${redactMember}`) +
    (fragment === undefined ? '' : '#***')
  );
}
