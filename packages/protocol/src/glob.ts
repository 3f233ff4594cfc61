/** A compiled glob. */
export interface Glob {
  matches(text: string): boolean;
}

/**
 * Compiles a glob: `*` matches any characters, also none, `?` one; all others match themselves. The whole text has to
 * match, case-sensitively.
 *
 * Texts come from clients and upstreams, so this is not a regular expression. The parts between asterisks are searched one
 * after the other, never again from the start: the first occurrence of each leaves most for the others.
 */
export function compileGlob(glob: string): Glob {
  const parts = glob.split(/\*+/);
  return glob.includes('?') ? new WildcardGlob(parts.map((part) => [...part])) : new LiteralGlob(parts);
}

/** A glob without `?`. Searches with `indexOf`, which is linear. */
class LiteralGlob implements Glob {
  readonly #first: string;
  readonly #middle: readonly string[];
  /** Undefined without an asterisk. */
  readonly #last: string | undefined;

  constructor(parts: readonly string[]) {
    const [first = '', ...others] = parts;
    this.#first = first;
    this.#middle = others.slice(0, -1);
    this.#last = others.at(-1);
  }

  matches(text: string): boolean {
    if (this.#last === undefined) return text === this.#first;
    const end = text.length - this.#last.length;
    if (end < this.#first.length || !text.startsWith(this.#first) || !text.endsWith(this.#last)) return false;
    let at = this.#first.length;
    for (const part of this.#middle) {
      const found = text.indexOf(part, at);
      if (found === -1) return false;
      at = found + part.length;
    }
    return at <= end;
  }
}

/** A glob with `?`, on characters rather than UTF-16 units. */
class WildcardGlob implements Glob {
  readonly #first: readonly string[];
  readonly #middle: readonly PartSearch[];
  /** Undefined without an asterisk. */
  readonly #last: readonly string[] | undefined;

  constructor(parts: readonly (readonly string[])[]) {
    const [first = [], ...others] = parts;
    this.#first = first;
    this.#middle = others.slice(0, -1).map((part) => new PartSearch(part));
    this.#last = others.at(-1);
  }

  matches(text: string): boolean {
    const characters = [...text];
    if (this.#last === undefined) {
      return characters.length === this.#first.length && isAt(this.#first, characters, 0);
    }
    const end = characters.length - this.#last.length;
    if (end < this.#first.length || !isAt(this.#first, characters, 0) || !isAt(this.#last, characters, end))
      return false;
    let at = this.#first.length;
    for (const part of this.#middle) {
      at = part.findEnd(characters, at, end);
      if (at === -1) return false;
    }
    return true;
  }
}

const BITS = 32;

/**
 * Finds a part with `?` (Shift-And): bit i of the state is set while the first i + 1 characters of the part end at the
 * current one. So a character costs one step per 32 characters of the part, whatever the text is.
 */
class PartSearch {
  readonly #length: number;
  /** Bits of the positions with `?`, and for each other character those and its own positions. */
  readonly #anyMask: Uint32Array;
  readonly #masks = new Map<string, Uint32Array>();

  constructor(part: readonly string[]) {
    this.#length = part.length;
    this.#anyMask = new Uint32Array(Math.ceil(part.length / BITS));
    for (const [index, character] of part.entries()) if (character === '?') setBit(this.#anyMask, index);
    for (const [index, character] of part.entries()) {
      if (character === '?') continue;
      const mask = this.#masks.getOrInsertComputed(character, () => this.#anyMask.slice());
      setBit(mask, index);
    }
  }

  /** The end of the first occurrence between two positions; -1 if there is none. */
  findEnd(characters: readonly string[], from: number, to: number): number {
    if (this.#length === 0) return from;
    const state = new Uint32Array(this.#anyMask.length);
    const last = state.length - 1;
    const final = 1 << ((this.#length - 1) % BITS);
    for (let at = from; at < to; at++) {
      const mask = this.#masks.get(characters[at] ?? '') ?? this.#anyMask;
      let carry = 1;
      for (let word = 0; word <= last; word++) {
        const before = state[word] ?? 0;
        state[word] = ((before << 1) | carry) & (mask[word] ?? 0);
        carry = before >>> (BITS - 1);
      }
      if (((state[last] ?? 0) & final) !== 0) return at + 1;
    }
    return -1;
  }
}

function setBit(words: Uint32Array, index: number): void {
  const word = Math.floor(index / BITS);
  words[word] = (words[word] ?? 0) | (1 << (index % BITS));
}

/** Whether a part is at this position. */
function isAt(part: readonly string[], characters: readonly string[], at: number): boolean {
  return part.every((character, index) => character === '?' || character === characters[at + index]);
}
