import { type Node, type ParseError, parseTree, printParseErrorCode } from 'jsonc-parser';

/** A configuration file's text that cannot be changed as it is: what is wrong, and where (counted from 1). */
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
 * Parses JSON as the editors among the client programs read it, with comments and trailing commas. Throws
 * {@link JsoncError} at the first mistake, and when the outermost value is not an object.
 */
export function parseJsonc(text: string): Node {
  const errors: ParseError[] = [];
  const root = parseTree(text, errors, { allowTrailingComma: true });
  const [first] = errors;
  if (first !== undefined) throw new JsoncError(text, first.offset, readableCode(printParseErrorCode(first.error)));
  if (root?.type !== 'object') throw new JsoncError(text, root?.offset ?? 0, 'an object was expected');
  return root;
}

/** The members of an object, in the order of the text; none when the node is no object. */
export function membersOf(object: Node): readonly Member[] {
  if (object.type !== 'object') return [];
  return (object.children ?? []).flatMap((node) => {
    const [key, value] = node.children ?? [];
    return key !== undefined && value !== undefined ? [{ key: String(key.value), node, value }] : [];
  });
}

/**
 * The member of that key. Throws {@link JsoncError} when there are two: which of them counts depends on the program
 * that reads the file.
 */
export function findMember(text: string, object: Node, key: string): Member | undefined {
  const [found, second] = membersOf(object).filter((member) => member.key === key);
  if (second !== undefined) throw new JsoncError(text, second.node.offset, `"${key}" is there a second time`);
  return found;
}

/** `CommaExpected`, as the parser has it, to `comma expected`. */
function readableCode(code: string): string {
  return code.replace(/(?<=[a-z])[A-Z]/g, (letter) => ` ${letter}`).toLowerCase();
}

/** How a JSON text is laid out, so that what is added looks like what is there. */
export interface Layout {
  /** One level of indentation. */
  readonly unit: string;
  readonly lineBreak: '\n' | '\r\n';
}

const INDENTED_LINE = /^([ \t]+)\S/m;

/** Reads the layout off the first line break and the first indented line; two blanks and `\n` where there is none. */
export function detectLayout(text: string): Layout {
  return {
    unit: INDENTED_LINE.exec(text)?.[1] ?? '  ',
    lineBreak: /\r?\n/.exec(text)?.[0] === '\r\n' ? '\r\n' : '\n',
  };
}

/** The blanks and tabs at the beginning of the line that an offset is in. */
export function indentationAt(text: string, offset: number): string {
  const line = text.slice(text.lastIndexOf('\n', offset - 1) + 1);
  return /^[ \t]*/.exec(line)?.[0] ?? '';
}

/** A value as it is written on lines of its own, the first of which begins after `indentation`. */
export function formatValue(value: unknown, { unit, lineBreak }: Layout, indentation: string): string {
  return JSON.stringify(value, null, unit).replaceAll('\n', lineBreak + indentation);
}

// The edits of jsonc-parser itself lay whole lines out anew, take neighbours' comments with what they remove, and leave
// a comma alone where one trailed. Here nothing changes but the member.

/** Adds a member at an object's end and returns the new text. Comments stay with what they stand behind. */
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

/** Puts another value in a member's place and returns the new text. */
export function replaceValue(text: string, { node, value: old }: Member, value: unknown): string {
  const onLines = /\n/.test(text);
  const layout = detectLayout(text);
  const formatMember = onLines ? formatValue(value, layout, indentationAt(text, node.offset)) : JSON.stringify(value);
  return text.slice(0, old.offset) + formatMember + text.slice(endOf(old));
}

/** Takes a member out and returns the new text; a line that nothing is left on goes too, comments stay. */
export function removeMember(text: string, object: Node, { node }: Member): string {
  const members = membersOf(object);
  const previous = members[members.findIndex((member) => member.node === node) - 1];
  const { comma } = findTail(text, node);
  // From the end to the beginning, so that the offsets before stay right.
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
  // An empty document is laid out in the way of most; one that is all on one line stays so.
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

/** What may stand between two members, a piece at a time: line breaks, blanks, comments and the comma. */
const BETWEEN = /(?<lineBreak>[\r\n]+)|[^\S\r\n]+|(?<comment>\/\/[^\r\n]*|\/\*.*?\*\/)|(?<comma>,)/suy;

/** What follows a member: its comma, when it has one, and where the comments end that stand behind it on its line. */
function findTail(text: string, node: Node): { readonly comma: number | undefined; readonly end: number } {
  const pieces = new RegExp(BETWEEN);
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

/** Where a member begins; with the blanks before it when it follows another one on the same line. */
function startWithSpace(text: string, node: Node, previous: Node | undefined): number {
  if (previous === undefined) return node.offset;
  const between = text.slice(endOf(previous), node.offset);
  return /\n/.test(between) ? node.offset : node.offset - (/[ \t]*$/.exec(between)?.[0].length ?? 0);
}

/** Without the line that an offset is in, when there is nothing on it. */
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
