import type { JsonValue } from '@sluice/json/lossless';
import { harmlessLine } from '../terminal/harmless.ts';
import type { Change, Step } from './step.ts';

/** What a step is about: `tool say in namespace default`. */
export function subject(step: Step): string {
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
export function changeLine({ member, from, to }: Change, isNew: boolean): string {
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

/** Members that are addresses. Their queries may hold keys, which belong on no screen and in no build log. */
const ADDRESSES = ['address', 'uri', 'configurationURI', 'secretsURI'];

/** The value, without the values in the query of an address. */
export function withoutSecrets(member: string, value: JsonValue): JsonValue {
  if (typeof value !== 'string' || !ADDRESSES.includes(member)) return value;
  const query = value.indexOf('?');
  if (query === -1) return value;
  const parts = value.slice(query + 1).split('&');
  return `${value.slice(0, query)}?${parts.map((part) => (part.includes('=') ? part.replace(/=.*/s, '=***') : '***')).join('&')}`;
}

/** What is in a namespace: `2 tools, 1 forward`; empty for nothing. */
export function contentsText(contents: Readonly<Record<string, JsonValue>>): string {
  const held = Object.entries(contents).filter(([, count]) => typeof count === 'number' && count > 0);
  return held.map(([what, count]) => `${count} ${count === 1 ? what.slice(0, -1) : what}`).join(', ');
}
