import { MAX_PARSED_VALUES } from '../json/parse.ts';
import { type JsonKind, JsonScanner, type JsonSink, KINDS, MAX_TOKEN_BYTES } from '../json/scanner.ts';
import {
  COMMA,
  type Member,
  QUOTE,
  skipContainer,
  skipScalar,
  skipSpace,
  skipString,
  stringAt,
  stringValue,
} from '../json/text.ts';

/** A value in the text of a message: a member with its key, or an element of a batch with an empty key. */
export interface ScannedMember extends Member {
  kind: JsonKind;
  /** Members of an object that the service reads, duplicates included, or elements of a batch; else undefined. */
  members: ScannedMember[] | undefined;
}

/** Structure of a message, see {@link scanEnvelope}. */
export interface Envelope {
  /** The message, or the batch. */
  readonly root: ScannedMember;
  /** Deepest nesting of arrays and objects. */
  readonly depth: number;
  /**
   * Key of an object, or the empty key of a batch, that has more members than allowed; only the first ones were
   * scanned.
   */
  readonly oversized: string | undefined;
  /**
   * Members that are not scanned, or elements of a batch, with more values than allowed or {@link MAX_PARSED_VALUES};
   * undefined if there are none.
   */
  readonly crowded: ReadonlySet<ScannedMember> | undefined;
  /** Whether the key of a member exceeds {@link MAX_TOKEN_BYTES}. */
  readonly hasLongKey: boolean;
  /** Whether positions in the text are offsets of the bytes. */
  readonly isAscii: boolean;
}

/** Keys of the objects whose members are scanned, by nesting depth. */
const ENTERED: readonly (readonly string[])[] = [[''], ['params'], ['_meta', 'arguments']];

class EnvelopeSink implements JsonSink {
  root: ScannedMember = { key: '', start: 0, end: 0, kind: 'null', members: undefined };
  oversized: string | undefined = undefined;
  hasLongKey = false;
  crowded: Set<ScannedMember> | undefined = undefined;
  readonly scanner = new JsonScanner(this);
  /** The text, if its positions are the offsets of the body. */
  readonly #ascii: string | undefined;
  readonly #maxMembers: number;
  /** Open containers, outermost first. */
  readonly #open: ScannedMember[] = [];
  #next = this.root;
  /** The latest value, if it was not entered. */
  #skipped: ScannedMember | undefined = undefined;
  /** Number of values before it. */
  #sizeBefore = 0;

  constructor(ascii: string | undefined, maxMembers: number) {
    this.#ascii = ascii;
    this.#maxMembers = maxMembers;
  }

  onValue(kind: JsonKind, start: number): boolean {
    const depth = this.#open.length;
    const inBatch = this.#open[depth - 1]?.kind === 'array';
    if (inBatch) this.#add('');
    const value = this.#next;
    value.kind = kind;
    value.start = start;
    const isEntered = depth === 0 ? kind === 'array' || kind === 'object' : kind === 'object' && !inBatch;
    if (!isEntered || !ENTERED[depth]?.includes(value.key)) {
      this.#skipped = value;
      this.#sizeBefore = this.scanner.size;
      return false;
    }
    value.members = [];
    this.#open.push(value);
    return true;
  }

  onKey(start: number, end: number): void {
    if (end - start > MAX_TOKEN_BYTES) this.hasLongKey = true;
    const raw = this.#ascii?.slice(start, end) ?? this.scanner.token;
    if (this.#add(stringValue(raw ?? '""'))) this.scanner.leave();
  }

  onScalar(): void {}

  onEnd(end: number): void {
    const skipped = this.#skipped;
    const ended = skipped ?? this.#open.pop();
    this.#skipped = undefined;
    if (ended) ended.end = end;
    if (skipped && this.scanner.size - this.#sizeBefore > Math.min(this.#maxMembers, MAX_PARSED_VALUES)) {
      this.crowded ??= new Set();
      this.crowded.add(skipped);
    }
    // An oversized batch can only be left between two elements.
    if (this.oversized === '' && this.#open.length === 1) this.scanner.leave();
  }

  /** Adds a member to the innermost container. Returns whether that has too many. */
  #add(key: string): boolean {
    const parent = this.#open[this.#open.length - 1];
    this.#next = { key, start: 0, end: 0, kind: 'null', members: undefined };
    parent?.members?.push(this.#next);
    const isOversized = (parent?.members?.length ?? 0) > this.#maxMembers;
    if (isOversized) this.oversized = parent?.key;
    return isOversized;
  }
}

/**
 * Finds the members of a message, of its `params`, and of `_meta` and `arguments` in them, without parsing values:
 * parsing 4 MiB of small values, which a client may send, takes a second. Returns the offset of the first invalid byte
 * if the body is not JSON. The returned ranges are offsets of the bytes. `ascii`: the text of a body in ASCII, if it was decoded.
 */
export function scanEnvelope(chunks: readonly Buffer[], maxMembers: number, ascii?: string): Envelope | number {
  const sink = new EnvelopeSink(ascii, maxMembers);
  const { scanner } = sink;
  for (const chunk of chunks) scanner.write(chunk);
  if (!scanner.isComplete) return scanner.offset;
  const { root, oversized, crowded, hasLongKey } = sink;
  return { root, depth: scanner.maxDepth, oversized, crowded, hasLongKey, isAscii: scanner.isAscii };
}

/**
 * Like {@link scanEnvelope}, for a short text that is known to be a JSON object: what is known to be valid is scanned in a third of
 * the time. Positions are those of the text. Undefined if an object has too many members.
 */
export function scanText(text: string, maxMembers: number): Envelope | undefined {
  const scanner = new TextScanner(text);
  const root = scanner.value('', 0);
  const { depth, maxCount } = scanner;
  if (maxCount > maxMembers) return undefined;
  return { root, depth, oversized: undefined, crowded: undefined, hasLongKey: false, isAscii: true };
}

class TextScanner {
  /** Deepest nesting so far. */
  depth = 0;
  /** Most members of an object that was entered. */
  maxCount = 0;
  readonly #text: string;
  readonly #hasEscapes: boolean;
  #at = 0;
  /** Members of the objects that are being scanned: V8 allocates 17 slots when an array grows, so all objects share one. */
  readonly #stack: ScannedMember[] = [];
  /** Number of members in the stack; others are left from objects that have ended. */
  #top = 0;

  constructor(text: string) {
    this.#text = text;
    this.#hasEscapes = text.includes('\\');
  }

  /** The next value, in `level` open objects. */
  value(key: string, level: number): ScannedMember {
    const start = skipSpace(this.#text, this.#at);
    const kind = KINDS[this.#text.charCodeAt(start)] ?? 'null';
    let members: ScannedMember[] | undefined;
    this.#at = start;
    if (kind === 'object' && ENTERED[level]?.includes(key)) members = this.#members(level + 1);
    else if (kind === 'object' || kind === 'array') this.#skipContainer(level);
    else this.#at = kind === 'string' ? skipString(this.#text, start) : skipScalar(this.#text, start);
    return { key, start, end: this.#at, kind, members };
  }

  #members(level: number): ScannedMember[] {
    const text = this.#text;
    const base = this.#top;
    let at = skipSpace(text, this.#at + 1);
    while (text.charCodeAt(at) === QUOTE) {
      const end = skipString(text, at);
      const key = this.#hasEscapes ? stringAt(text, at, end) : text.slice(at + 1, end - 1);
      // Behind the colon.
      this.#at = skipSpace(text, end) + 1;
      // Members of the value are in the stack until it has ended.
      const member = this.value(key, level);
      this.#stack[this.#top++] = member;
      at = skipSpace(text, this.#at);
      if (text.charCodeAt(at) === COMMA) at = skipSpace(text, at + 1);
    }
    this.#at = at + 1;
    const found = this.#stack.slice(base, this.#top);
    this.#top = base;
    this.depth = Math.max(this.depth, level);
    this.maxCount = Math.max(this.maxCount, found.length);
    return found;
  }

  #skipContainer(level: number): void {
    const { end, depth } = skipContainer(this.#text, this.#at);
    this.#at = end;
    this.depth = Math.max(this.depth, level + depth);
  }
}

/** Replaces offsets of the bytes by positions in the text, for a body that is not ASCII. */
export function toTextPositions(root: ScannedMember, body: Buffer): void {
  let bytes = 0;
  let position = 0;
  const advance = (offset: number): number => {
    position += body.toString('utf8', bytes, offset).length;
    bytes = offset;
    return position;
  };
  const convert = (member: ScannedMember): void => {
    member.start = advance(member.start);
    member.members?.forEach(convert);
    member.end = advance(member.end);
  };
  convert(root);
}
