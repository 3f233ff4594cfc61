import type { JsonObject, JsonValue } from '@sluice/protocol/json/parse';
import { counted } from '@sluice/protocol/text';
import type { Style } from '../terminal/terminal.ts';
import { sanitizeLine } from '../terminal/text.ts';
import type { Applied, Change } from './service-state.ts';

const SIGNS = { create: '+', update: '~', delete: '-' } as const;
const COLORS = { create: 'green', update: 'yellow', delete: 'red' } as const;
const SUMMARY_TERMS = [
  ['create', 'to create'],
  ['update', 'to change'],
  ['delete', 'to delete'],
] as const;

/** Formats a plan as text: a line per change with its members and notes, and a summary. */
export function formatPlan(changes: readonly Change[], style: Style): string {
  const lines = changes.flatMap((change) => [
    style(COLORS[change.action], `${SIGNS[change.action]} ${describeChange(change)}`),
    ...change.members
      .filter(isListed(change))
      .map((member) => `    ${formatMember(member, change.action === 'create')}`),
    ...(change.widens ?? []).map((how) => style('red', `    ! widens the reach of agents: ${sanitizeLine(how)}`)),
    ...[...change.notes, ...contentsNote(change)].map((note) => `    (${sanitizeLine(note)})`),
  ]);
  return [...lines, '', formatSummary(changes), ''].join('\n');
}

/** The name of a new entry is in the line above. */
function isListed({ action, kind }: Change): (member: Change['members'][number]) => boolean {
  return ({ member }) =>
    action !== 'create' ||
    (member !== 'name' && member !== 'namespace') ||
    (kind === 'forward' && member === 'namespace');
}

/** What is deleted with a namespace: `with its contents: 2 tools, 1 forward`. */
function contentsNote({ contents }: Pick<Change, 'contents'>): string[] {
  const present = Object.entries(contents ?? {}).filter(([, count]) => count > 0);
  const counts = present.map(([what, count]) => `${count} ${count === 1 ? what.slice(0, -1) : what}`);
  return counts.length === 0 ? [] : [`with its contents: ${counts.join(', ')}`];
}

/** `3 changes: 1 to create, 2 to delete`. */
function formatSummary(changes: readonly Change[]): string {
  const counts = SUMMARY_TERMS.map(([action, words]) => {
    const count = changes.filter((change) => change.action === action).length;
    return count === 0 ? '' : `${count} ${words}`;
  });
  return `${counted(changes.length, 'change')}: ${counts.filter(Boolean).join(', ')}`;
}

/**
 * Converts changes to JSON: `{changes: [{action, kind, name, ..., members: [{member, from, to}], widens?, notes}]}`, of applied ones
 * with `status` and `result`. Values are complete, except for secrets.
 */
export function changesToJson(changes: readonly (Change | Applied)[]): { changes: JsonObject[] } {
  return {
    changes: changes.map((change): JsonObject => {
      const { members, widens, notes, result, ...identity }: Change & Partial<Applied> = change;
      const redacted = members.map(
        ({ member, from, to }): JsonObject => ({ member, ...redactMember(member, { from, to }) }),
      );
      const all = [...notes, ...contentsNote(change)];
      return {
        ...identity,
        members: redacted,
        ...(widens && { widens: [...widens] }),
        notes: all,
        ...(result && { status: 'done', result: [...result] }),
      };
    }),
  };
}

function redactMember(member: string, values: Readonly<Record<string, JsonValue | undefined>>): JsonObject {
  return Object.fromEntries(
    Object.entries(values).flatMap(([which, value]) =>
      value === undefined ? [] : [[which, redactUrl(member, value)] as const],
    ),
  );
}

const PAST_TENSE = { create: 'created', update: 'changed', delete: 'deleted' } as const;

/** Formats an applied change as one line. */
export function formatResult(applied: Applied, style: Style): string {
  const notes = applied.result.length === 0 ? '' : ` (${sanitizeLine(applied.result.join('; '))})`;
  return `${style('green', PAST_TENSE[applied.action])} ${describeChange(applied)}${notes}`;
}

/** Describes the entry of a change: `tool say in namespace default`. */
export function describeChange(change: Change): string {
  const { kind, name, namespace, forward, upstreamName, serviceType, serviceSubType, languageName } = change;
  const upstream = name === upstreamName ? '' : `, upstream name ${upstreamName}`;
  const key = [serviceType, serviceSubType, languageName].filter((part) => part !== undefined);
  return sanitizeLine(
    [
      `${kind} ${name}`,
      namespace === undefined ? '' : ` in namespace ${namespace}`,
      forward === undefined ? '' : ` (forward ${forward}${upstream})`,
      key.length === 0 ? '' : ` (${key.join(', ')})`,
    ].join(''),
  );
}

/** Longer values are truncated. */
const MAX_VALUE_LENGTH = 60;

/** Formats a changed member: `labels: {} -> {"team":"a"}`. */
function formatMember({ member, from, to }: Change['members'][number], isNew: boolean): string {
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
