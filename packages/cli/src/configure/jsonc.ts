import { type Node, type ParseError, parseTree, printParseErrorCode } from 'jsonc-parser';

/** A configuration file that cannot be edited, with the position of the problem (counted from 1). */
export class JsoncError extends Error {
  override readonly name = 'DocumentError';
  readonly line: number;
  readonly column: number;

  constructor(text: string, offset: number, problem: string) {
    super(problem);
    const before = text.slice(0, offset).split(/\r\n|\r|\n/);
    this.line = before.length;
    this.column = (before.at(-1)?.length ?? 0) + 1;
  }
}

/** A member of an object in the text. */
export interface Member {
  readonly key: string;
  /** The whole member, key and value. */
  readonly node: Node;
  readonly value: Node;
}

/**
 * Parses JSON with comments and trailing commas. Throws {@link JsoncError} at the first error, and when the root is not
 * an object.
 */
export function parseJsonc(text: string): Node {
  const errors: ParseError[] = [];
  const root = parseTree(text, errors, { allowTrailingComma: true });
  const [first] = errors;
  if (first !== undefined) throw new JsoncError(text, first.offset, readableCode(printParseErrorCode(first.error)));
  if (root?.type !== 'object') throw new JsoncError(text, root?.offset ?? 0, 'expected an object');
  return root;
}

/** Returns the members of an object in source order; none for other nodes. */
export function membersOf(object: Node): readonly Member[] {
  if (object.type !== 'object') return [];
  return (object.children ?? []).flatMap((node) => {
    const [key, value] = node.children ?? [];
    return key !== undefined && value !== undefined ? [{ key: String(key.value), node, value }] : [];
  });
}

/**
 * Returns the member with a key. Throws {@link JsoncError} for a duplicate key, because clients differ in which one
 * they use.
 */
export function findMember(text: string, object: Node, key: string): Member | undefined {
  const [found, second] = membersOf(object).filter((member) => member.key === key);
  if (second !== undefined) throw new JsoncError(text, second.node.offset, `duplicate key "${key}"`);
  return found;
}

/** Converts the parser's `CommaExpected` to `comma expected`. */
function readableCode(code: string): string {
  return code.replace(/(?<=[a-z])[A-Z]/g, (letter) => ` ${letter}`).toLowerCase();
}

/** Layout of a JSON text, which added members follow. */
export interface Layout {
  /** One level of indentation. */
  readonly unit: string;
  readonly lineBreak: '\n' | '\r\n';
}

const INDENTED_LINE = /^([ \t]+)\S/m;

/** Detects the layout from the first line break and the first indented line; default: two spaces and `\n`. */
function detectLayout(text: string): Layout {
  return {
    unit: INDENTED_LINE.exec(text)?.[1] ?? '  ',
    lineBreak: /\r?\n/.exec(text)?.[0] === '\r\n' ? '\r\n' : '\n',
  };
}

/** Returns the indentation of the line at an offset. */
function indentationAt(text: string, offset: number): string {
  const line = text.slice(text.lastIndexOf('\n', offset - 1) + 1);
  return /^[ \t]*/.exec(line)?.[0] ?? '';
}

/** Formats a value for a line with this indentation. */
function formatValue(value: unknown, { unit, lineBreak }: Layout, indentation: string): string {
  return JSON.stringify(value, null, unit).replaceAll('\n', lineBreak + indentation);
}

// The edits of jsonc-parser reformat whole lines, remove comments of neighboring members with a member, and leave
// a comma alone where one trailed. Only the member changes here.

/** Adds a member at the end of an object and returns the new text. Comments stay in place. */
export function addMember(text: string, object: Node, key: string, value: unknown): string {
  const layout = detectLayout(text);
  const last = membersOf(object).at(-1);
  if (last === undefined) return addFirst(text, object, key, value, layout);
  const tail = findTail(text, last.node);
  const onLines = /\n/.test(text.slice(object.offset, object.offset + object.length));
  const indentation = indentationAt(text, last.node.offset);
  const member = onLines
    ? layout.lineBreak + indentation + formatMember(key, value, layout, indentation)
    : JSON.stringify({ [key]: value }).slice(1, -1);
  if (tail.comma === undefined) {
    const end = endOf(last.node);
    return `${text.slice(0, end)},${text.slice(end, tail.end)}${member}${text.slice(tail.end)}`;
  }
  return `${text.slice(0, tail.end)}${member},${text.slice(tail.end)}`;
}

/** Replaces the value of a member and returns the new text. */
export function replaceValue(text: string, { node, value: old }: Member, value: unknown): string {
  const onLines = /\n/.test(text);
  const layout = detectLayout(text);
  const formatMember = onLines ? formatValue(value, layout, indentationAt(text, node.offset)) : JSON.stringify(value);
  return text.slice(0, old.offset) + formatMember + text.slice(endOf(old));
}

/** Removes a member and returns the new text. Removes a line that becomes empty; comments stay. */
export function removeMember(text: string, object: Node, { node }: Member): string {
  const members = membersOf(object);
  const previous = members[members.findIndex((member) => member.node === node) - 1];
  const { comma } = findTail(text, node);
  // Edit from the end, so that earlier offsets stay valid.
  let result = comma === undefined ? text : cutRange(text, comma, comma + 1);
  result = cutRange(result, startWithSpace(result, node, previous?.node), endOf(node));
  const end = endOf(object) - (text.length - result.length);
  if (/^\{\s*\}$/.test(result.slice(object.offset, end))) {
    return `${result.slice(0, object.offset)}{}${result.slice(end)}`;
  }
  result = removeBlankLine(result, node.offset);
  const separator = previous === undefined || comma !== undefined ? undefined : findTail(text, previous.node).comma;
  return separator === undefined ? result : cutRange(result, separator, separator + 1);
}

function addFirst(text: string, object: Node, key: string, value: unknown, layout: Layout): string {
  const end = endOf(object) - 1;
  const inside = text.slice(object.offset + 1, end).trimEnd();
  // A document on one line stays on one line; an empty one gets the usual layout.
  if (!/\n/.test(text) && text.trim() !== '{}') {
    return text.slice(0, end) + JSON.stringify({ [key]: value }).slice(1, -1) + text.slice(end);
  }
  const outer = indentationAt(text, object.offset);
  const inner = outer + layout.unit;
  const { lineBreak } = layout;
  const member = lineBreak + inner + formatMember(key, value, layout, inner) + lineBreak + outer;
  return text.slice(0, object.offset + 1) + inside + member + text.slice(end);
}

function formatMember(key: string, value: unknown, layout: Layout, indentation: string): string {
  return `${JSON.stringify(key)}: ${formatValue(value, layout, indentation)}`;
}

/** Tokens between two members: line breaks, spaces, comments and the comma. */
const SEPARATOR = /(?<lineBreak>[\r\n]+)|[^\S\r\n]+|(?<comment>\/\/[^\r\n]*|\/\*.*?\*\/)|(?<comma>,)/suy;

/** Returns the offset of the comma after a member, if any, and the end of the comments on its line. */
function findTail(text: string, node: Node): { readonly comma: number | undefined; readonly end: number } {
  const pieces = new RegExp(SEPARATOR);
  pieces.lastIndex = endOf(node);
  let comma: number | undefined;
  let end = endOf(node);
  let sameLine = true;
  for (let piece = pieces.exec(text); piece !== null; piece = pieces.exec(text)) {
    if (piece.groups?.comma !== undefined) {
      comma = piece.index;
      end = pieces.lastIndex;
      sameLine = true;
    } else if (piece.groups?.lineBreak !== undefined) sameLine = false;
    else if (piece.groups?.comment !== undefined && sameLine) end = pieces.lastIndex;
  }
  return { comma, end };
}

/** Start of a member, including the spaces that separate it from a member on the same line. */
function startWithSpace(text: string, node: Node, previous: Node | undefined): number {
  if (previous === undefined) return node.offset;
  const separator = text.slice(endOf(previous), node.offset);
  return /\n/.test(separator) ? node.offset : node.offset - (/[ \t]*$/.exec(separator)?.[0].length ?? 0);
}

/** Removes the line at an offset when it is blank. */
function removeBlankLine(text: string, offset: number): string {
  const start = text.lastIndexOf('\n', offset - 1) + 1;
  const lineBreak = text.indexOf('\n', start);
  if (lineBreak < 0 || text.slice(start, lineBreak).trim() !== '') return text;
  return cutRange(text, start, lineBreak + 1);
}

function cutRange(text: string, start: number, end: number): string {
  return text.slice(0, start) + text.slice(end);
}

function endOf(node: Node): number {
  return node.offset + node.length;
}
