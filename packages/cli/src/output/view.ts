import { isJsonObject } from '@sluice/protocol/json/parse';
import type { Style } from '../terminal/terminal.ts';
import { displayWidth, padToWidth, sanitizeLine, sanitizeText } from '../terminal/text.ts';

const INDENT = '  ';

/** One thing for people: a line per member, names aligned; objects and lists are indented below their name. */
export function formatView(payload: object, style: Style): string {
  return formatMembers(payload, style)
    .map((line) => `${line}\n`)
    .join('');
}

function formatMembers(payload: object, style: Style): string[] {
  const members = Object.entries(payload).filter(([, value]) => value !== undefined);
  const widest = Math.max(
    0,
    ...members.filter(([, value]) => isInline(value)).map(([name]) => displayWidth(sanitizeLine(name))),
  );
  return members.flatMap(([name, value]) => {
    const label = `${sanitizeLine(name)}:`;
    if (isInline(value)) return [`${style('bold', padToWidth(label, widest + 1))} ${formatInline(value)}`.trimEnd()];
    return [style('bold', label), ...formatBlock(value, style).map((line) => INDENT + line)];
  });
}

/** What fits on the line of its name. */
function isInline(value: unknown): boolean {
  if (typeof value === 'string') return !value.includes('\n');
  if (Array.isArray(value)) return value.every((item) => isInline(item) && !Array.isArray(item));
  return !isJsonObject(value) || Object.keys(value).length === 0;
}

function formatInline(value: unknown): string {
  if (typeof value === 'string') return sanitizeLine(value);
  if (Array.isArray(value)) return value.length === 0 ? '-' : value.map(formatInline).join(', ');
  if (isJsonObject(value)) return '-';
  return sanitizeLine(JSON.stringify(value) ?? '');
}

function formatBlock(value: unknown, style: Style): string[] {
  if (typeof value === 'string') return sanitizeText(value).split('\n');
  if (Array.isArray(value)) {
    return value.flatMap((item) => {
      const [first = '', ...rest] = isInline(item) ? [formatInline(item)] : formatBlock(item, style);
      return [`- ${first}`, ...rest.map((line) => INDENT + line)];
    });
  }
  return typeof value === 'object' && value !== null ? formatMembers(value, style) : [formatInline(value)];
}
