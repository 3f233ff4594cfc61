import { isJsonObject } from '@sluice/protocol/json/parse';
import { harmlessLine, harmlessText } from '../terminal/harmless.ts';
import type { Style } from '../terminal/style.ts';
import { displayWidth, padToWidth } from '../terminal/width.ts';

const INDENT = '  ';

/** One thing for people: a line per member, names aligned; objects and lists are indented below their name. */
export function formatView(payload: object, style: Style): string {
  return lines(payload, style)
    .map((line) => `${line}\n`)
    .join('');
}

function lines(payload: object, style: Style): string[] {
  const members = Object.entries(payload).filter(([, value]) => value !== undefined);
  const widest = Math.max(
    0,
    ...members.filter(([, value]) => isShort(value)).map(([name]) => displayWidth(harmlessLine(name))),
  );
  return members.flatMap(([name, value]) => {
    const label = `${harmlessLine(name)}:`;
    if (isShort(value)) return [`${style('bold', padToWidth(label, widest + 1))} ${short(value)}`.trimEnd()];
    return [style('bold', label), ...block(value, style).map((line) => INDENT + line)];
  });
}

/** What fits on the line of its name. */
function isShort(value: unknown): boolean {
  if (typeof value === 'string') return !value.includes('\n');
  if (Array.isArray(value)) return value.every((item) => isShort(item) && !Array.isArray(item));
  return !isJsonObject(value) || Object.keys(value).length === 0;
}

function short(value: unknown): string {
  if (typeof value === 'string') return harmlessLine(value);
  if (Array.isArray(value)) return value.length === 0 ? '-' : value.map(short).join(', ');
  if (isJsonObject(value)) return '-';
  return harmlessLine(JSON.stringify(value) ?? '');
}

function block(value: unknown, style: Style): string[] {
  if (typeof value === 'string') return harmlessText(value).split('\n');
  if (Array.isArray(value)) {
    return value.flatMap((item) => {
      const [first = '', ...rest] = isShort(item) ? [short(item)] : block(item, style);
      return [`- ${first}`, ...rest.map((line) => INDENT + line)];
    });
  }
  return typeof value === 'object' && value !== null ? lines(value, style) : [short(value)];
}
