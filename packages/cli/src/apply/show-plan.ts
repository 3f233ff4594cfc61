import type { JsonObject, JsonValue } from '@sluice/json/lossless';
import { harmlessLine } from '../terminal/harmless.ts';
import type { Style } from '../terminal/style.ts';
import type { Step } from './step.ts';
import { changeLine, subject, withoutSecrets } from './words.ts';

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
export function stepJson(step: Step): JsonObject {
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
