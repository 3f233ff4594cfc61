import { createTwoFilesPatch, FILE_HEADERS_ONLY } from 'diff';
import { type Node, parseTree, visit } from 'jsonc-parser';
import type { Style } from '../terminal/terminal.ts';
import { sanitizeText } from '../terminal/text.ts';
import type { EntryPath } from './server-entry.ts';

/** Masks secrets of a configuration file in a diff. */
export interface SecretMask {
  /**
   * Replaces secrets and comments by `"…"`. Different secrets stay different: each is followed by a number between NUL
   * characters, which JSON text cannot contain.
   */
  readonly mask: (text: string) => string;
  /** Removes these numbers from a line. */
  readonly unmark: (line: string) => string;
}

const SECRET_NAME = /auth|token|secret|key|passw|credential/i;
const SECRET_OPTION = /^-.*(?:auth|token|secret|key|passw|credential|header)/i;
/** A reference to a secret, also as a header value. */
const REFERENCE = /^(?:[\w-]+: ?)?(?:Bearer )?\$\{[^{}]+\}$/;
/** Readable words and names of packages, options and files; generated secrets contain digits. */
const NOT_SECRET = /^-{0,2}[@./~]{0,2}[a-z]+(?:[._/:@-]{1,2}[a-z]+)*$/i;
const MAX_LENGTH = 100;

/** Creates a mask for one configuration. More of our own entry (`ours`) is shown than of others. */
function createSecretMask(entry: EntryPath): SecretMask {
  const numbers = new Map<string, number>();
  const marked = (replacement: string, secret: string): string => {
    const number = numbers.get(secret) ?? numbers.size;
    numbers.set(secret, number);
    return `${replacement}\0${number}\0`;
  };
  return {
    mask: (text) => {
      const hidden: MaskedRange[] = [];
      const root = parseTree(text, [], { allowTrailingComma: true });
      if (root !== undefined) collectSecrets(root, [], entry, hidden);
      // A comment may contain an entry that was commented out.
      visit(text, { onComment: (offset, length) => hidden.push({ offset, length, replacement: '/* … */' }) });
      let result = '';
      let end = 0;
      for (const { offset, length, replacement } of hidden.sort((a, b) => a.offset - b.offset)) {
        result += text.slice(end, offset) + marked(replacement, text.slice(offset, offset + length));
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
  /** Replacement text. */
  readonly replacement: string;
}

/** `path` contains the keys of the path to the node; list items add none. */
function collectSecrets(node: Node, path: readonly string[], ours: EntryPath, hidden: MaskedRange[]): void {
  if (node.type === 'property') {
    const [key, value] = node.children ?? [];
    if (value !== undefined) collectSecrets(value, [...path, String(key?.value)], ours, hidden);
  } else if (node.type === 'string') {
    const value = String(node.value);
    const replacement = isSecret(node, value, path, ours) ? '…' : redactUrl(value);
    if (replacement !== value)
      hidden.push({ offset: node.offset, length: node.length, replacement: JSON.stringify(replacement) });
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
  const isWord = value.length <= MAX_LENGTH && NOT_SECRET.test(value);
  return !isWord || SECRET_OPTION.test(previousItem(node));
}

/** Value of the preceding list item. */
function previousItem(node: Node): string {
  const list = node.parent?.children ?? [];
  return String(list[list.indexOf(node) - 1]?.value ?? '');
}

/** Removes credentials and the query from a URL; returns other text unchanged. */
function redactUrl(value: string): string {
  if (!value.includes('://')) return value;
  const url = URL.parse(value);
  if (url === null) return '…';
  if (url.username === '' && url.password === '' && url.search === '' && url.hash === '') return value;
  const credentials = url.username === '' && url.password === '' ? '' : '…@';
  return `${url.protocol}//${credentials}${url.host}${url.pathname}${url.search === '' && url.hash === '' ? '' : '?…'}`;
}

/** Formats a change as a unified diff with masked secrets. */
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
