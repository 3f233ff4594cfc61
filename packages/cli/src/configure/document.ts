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
