import { createTwoFilesPatch, FILE_HEADERS_ONLY } from 'diff';
import { harmlessText } from '../terminal/harmless.ts';
import type { Style } from '../terminal/style.ts';
import type { Place } from './edit.ts';
import { createMask } from './mask.ts';

/** The change from one text to another as a unified diff, without the secrets that stand in either. */
export function difference(
  path: string,
  exists: boolean,
  [before, after]: readonly [string, string],
  ours: Place,
  style: Style,
): string {
  const { hide, finish } = createMask(ours);
  const patch = createTwoFilesPatch(
    exists ? path : '/dev/null',
    path,
    hide(before),
    hide(after),
    undefined,
    undefined,
    {
      context: 3,
      headerOptions: FILE_HEADERS_ONLY,
    },
  );
  return patch
    .split('\n')
    .map((line) => coloured(harmlessText(finish(line)), style))
    .join('\n');
}

function coloured(line: string, style: Style): string {
  if (line.startsWith('+++') || line.startsWith('---')) return style('bold', line);
  if (line.startsWith('+')) return style('green', line);
  if (line.startsWith('-')) return style('red', line);
  return line.startsWith('@@') ? style('cyan', line) : line;
}
