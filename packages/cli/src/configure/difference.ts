import { createTwoFilesPatch, FILE_HEADERS_ONLY } from 'diff';
import { harmlessText } from '../terminal/harmless.ts';
import type { Style } from '../terminal/style.ts';

/** Values that are secrets by their name; a reference to a secret kept elsewhere is none. */
const SECRET =
  /("[^"\n]*(?:auth|token|secret|key|passw|credential)[^"\n]*"\s*:\s*)"(?!(?:Bearer )?\$\{)(?:[^"\\\n]|\\.)+"/gi;

/** The change from one text to another as a unified diff, without the secrets that stand in either. */
export function difference(path: string, exists: boolean, before: string, after: string, style: Style): string {
  const patch = createTwoFilesPatch(exists ? path : '/dev/null', path, before, after, undefined, undefined, {
    context: 3,
    headerOptions: FILE_HEADERS_ONLY,
  });
  return patch
    .split('\n')
    .map((line) => coloured(harmlessText(line.replaceAll(SECRET, '$1"…"')), style))
    .join('\n');
}

function coloured(line: string, style: Style): string {
  if (line.startsWith('+++') || line.startsWith('---')) return style('bold', line);
  if (line.startsWith('+')) return style('green', line);
  if (line.startsWith('-')) return style('red', line);
  return line.startsWith('@@') ? style('cyan', line) : line;
}
