import { createTwoFilesPatch, FILE_HEADERS_ONLY } from 'diff';
import { sanitizeText } from '../terminal/harmless.ts';
import type { Style } from '../terminal/style.ts';
import type { EntryPath } from './edit.ts';
import { createSecretMask } from './mask.ts';

/** The change from one text to another as a unified diff, without the secrets that stand in either. */
export function formatDiff(
  path: string,
  exists: boolean,
  [before, after]: readonly [string, string],
  ours: EntryPath,
  style: Style,
): string {
  const { mask, unmark } = createSecretMask(ours);
  const patch = createTwoFilesPatch(
    exists ? path : '/dev/null',
    path,
    mask(before),
    mask(after),
    undefined,
    undefined,
    {
      context: 3,
      headerOptions: FILE_HEADERS_ONLY,
    },
  );
  return patch
    .split('\n')
    .map((line) => colorize(sanitizeText(unmark(line)), style))
    .join('\n');
}

function colorize(line: string, style: Style): string {
  if (line.startsWith('+++') || line.startsWith('---')) return style('bold', line);
  if (line.startsWith('+')) return style('green', line);
  if (line.startsWith('-')) return style('red', line);
  return line.startsWith('@@') ? style('cyan', line) : line;
}
