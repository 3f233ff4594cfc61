import { createTwoFilesPatch, FILE_HEADERS_ONLY } from 'diff';
import { type Node, parseTree, visit } from 'jsonc-parser';
import type { Style } from '../terminal/terminal.ts';
import { sanitizeText } from '../terminal/text.ts';
import type { EntryPath } from './server-entry.ts';

/** Hides secrets of a configuration file for a comparison of what it was and what it will be. */
export interface SecretMask {
  /**
   * The text with `"…"` in the place of its secrets and comments. Two that differ still do: a number between NUL
   * characters, which JSON cannot have, follows each.
   */
  readonly mask: (text: string) => string;
  /** A line without those numbers. */
  readonly unmark: (line: string) => string;
}

const SECRET_NAME = /auth|token|secret|key|passw|credential/i;
const SECRET_OPTION = /^-.*(?:auth|token|secret|key|passw|credential|header)/i;
/** What takes the place of a secret that is kept elsewhere; also as the value of a header. */
const REFERENCE = /^(?:[\w-]+: ?)?(?:Bearer )?\$\{[^{}]+\}$/;
/** Words and names of packages, options and files, as people make them; what has been made by dice has digits. */
const PLAIN_WORD = /^-{0,2}[@./~]{0,2}[a-z]+(?:[._/:@-]{1,2}[a-z]+)*$/i;
const LONGEST_WORD = 100;

/** A mask for the files of one program; of the entry at `ours` more is shown than of others. */
export function createSecretMask(ours: EntryPath): SecretMask {
  const numbers = new Map<string, number>();
  const marked = (shown: string, secret: string): string => {
    const number = numbers.get(secret) ?? numbers.size;
    numbers.set(secret, number);
    return `${shown}\0${number}\0`;
  };
  return {
    mask: (text) => {
      const hidden: MaskedRange[] = [];
      const root = parseTree(text, [], { allowTrailingComma: true });
      if (root !== undefined) collectSecrets(root, [], ours, hidden);
      // What has been commented out may have been an entry.
      visit(text, { onComment: (offset, length) => hidden.push({ offset, length, shown: '/* … */' }) });
      let result = '';
      let end = 0;
      for (const { offset, length, shown } of hidden.sort((a, b) => a.offset - b.offset)) {
        result += text.slice(end, offset) + marked(shown, text.slice(offset, offset + length));
        end = offset + length;
      }
      return result + text.slice(end);
    },
    unmark: (line) => line.replace(/\0\d+\0/g, ''),
  };
}

interface MaskedRange {
  readonly offset: number;
  readonly length: number;
  /** What is shown in its place. */
  readonly shown: string;
}

/** `path` are the keys that lead to the node; places in lists have none. */
function collectSecrets(node: Node, path: readonly string[], ours: EntryPath, hidden: MaskedRange[]): void {
  if (node.type === 'property') {
    const [key, value] = node.children ?? [];
    if (value !== undefined) collectSecrets(value, [...path, String(key?.value)], ours, hidden);
  } else if (node.type === 'string') {
    const value = String(node.value);
    const shown = isSecret(node, value, path, ours) ? '…' : redactUrl(value);
    if (shown !== value) hidden.push({ offset: node.offset, length: node.length, shown: JSON.stringify(shown) });
  } else {
    for (const child of node.children ?? []) collectSecrets(child, path, ours, hidden);
  }
}

function isSecret(node: Node, value: string, path: readonly string[], { servers, name }: EntryPath): boolean {
  if (value === '' || REFERENCE.test(value)) return false;
  const isOurs = path[0] === servers && path[1] === name;
  const keys = isOurs ? path.slice(2) : path;
  if (keys.includes('env') || keys.includes('headers') || keys.some((key) => SECRET_NAME.test(key))) return true;
  if (!keys.includes('args')) return false;
  if (isOurs && URL.canParse(value)) return false;
  const isWord = value.length <= LONGEST_WORD && PLAIN_WORD.test(value);
  return !isWord || SECRET_OPTION.test(previousItem(node));
}

/** The text before a node in its list. */
function previousItem(node: Node): string {
  const list = node.parent?.children ?? [];
  return String(list[list.indexOf(node) - 1]?.value ?? '');
}

/** An address without what may let somebody in; any other text as it is. */
function redactUrl(value: string): string {
  if (!value.includes('://')) return value;
  const url = URL.parse(value);
  if (url === null) return '…';
  if (url.username === '' && url.password === '' && url.search === '' && url.hash === '') return value;
  const person = url.username === '' && url.password === '' ? '' : '…@';
  return `${url.protocol}//${person}${url.host}${url.pathname}${url.search === '' && url.hash === '' ? '' : '?…'}`;
}

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
