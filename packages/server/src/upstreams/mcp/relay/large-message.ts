import { ChunkBuffer } from '@sluice/protocol/chunk-buffer';
import { isJsonObject, type JsonObject, type JsonValue, tryParseJson } from '@sluice/protocol/json/parse';
import { type JsonKind, JsonScanner, type JsonSink } from '@sluice/protocol/json/scanner';
import { BACKSLASH, type Edit, stringStart, stringValue } from '@sluice/protocol/json/text';
import { REPORTED_MEMBERS, TASK_MEMBERS } from '@sluice/protocol/mcp/tasks';
import type { ResponseBytes } from '../../response-sink.ts';
import { isSameId } from '../request-ids.ts';

/** Messages from this size on are scanned as they arrive, not parsed. */
export const LARGE_MESSAGE_BYTES = 16 * 1024;
/** Results from this size on are sent while they arrive. */
const RELAYED_BYTES = 64 * 1024;

/** Messages up to this size, with at most so many values, can be parsed at once: that takes a few milliseconds. */
const MAX_PARSED_BYTES = 4 * 1024 * 1024;
const MAX_PARSED_VALUES = 50_000;

/** Content blocks of which something is stored; telemetry and the cache of resource links need no more. */
const MAX_BLOCKS = 1_000;
/** Longer texts are truncated: tool-call events contain 16 KiB of texts. With escapes, that takes more bytes of JSON. */
const PLAIN_TEXT_BYTES = 20 * 1024;
/** Characters of texts that are stored; of further ones it only matters that they exist. */
const MAX_TEXT_CHARACTERS = 256 * 1024;
/** Members of the message, and of its result, that are read. */
const MAX_MEMBERS = 10_000;
/** Members of a result whose positions are stored: of each at most one, except for duplicates. */
const MAX_POSITIONS = 100;

/** Members that are stored, by the keys of the objects around them; `[]` are the elements of an array. */
const STORED: Readonly<Record<string, ReadonlySet<string>>> = {
  '': new Set(['id', 'method', 'result', 'error']),
  '.result': new Set([
    ...['isError', 'resultType', 'content', 'messages', 'structuredContent', 'cacheScope', 'result', 'task'],
    ...TASK_MEMBERS,
  ]),
  // The result of a task.
  '.result.result': new Set(['isError', 'content']),
  '.result.result.content': new Set(['type', 'text']),
  '.result.result.content[]': new Set(['type', 'text']),
  '.result.content': new Set(['type', 'text', 'uri']),
  '.result.content[]': new Set(['type', 'text', 'uri']),
  '.result.messages[]': new Set(['content']),
  '.result.messages[].content': new Set(['type', 'uri']),
  '.result.messages[].content[]': new Set(['type', 'uri']),
  '.error': new Set(['code', 'message']),
};
/** Members of a result that translation between eras, or of the ids of tasks, changes. */
const POSITIONED: ReadonlySet<string> = new Set([
  ...['resultType', 'structuredContent', 'result'],
  ...REPORTED_MEMBERS,
]);

interface Container {
  readonly path: string;
  /** Number of members so far. */
  members: number;
  /** Undefined for one that is not entered. */
  readonly value: JsonObject | JsonValue[] | undefined;
}

/** Position of a member of a result in the bytes of a message. */
export interface ResultMember {
  readonly key: string;
  /** The end of the previous member, or of the opening brace. */
  readonly before: number;
  readonly keyStart: number;
  readonly start: number;
  end: number;
  /** The beginning of the next member; undefined if there is none. */
  next: number | undefined;
}

/** Positions in a result that is an object; see {@link LargeMessage.result}. */
export interface ResultPositions {
  /** The position after the opening brace. */
  readonly start: number;
  isEmpty: boolean;
  /** The members that translation changes, in their order; undefined if there are too many duplicates. */
  members: ResultMember[] | undefined;
  /** Returns the text of a member. */
  textOf(member: ResultMember): string;
}

class MessageScan implements JsonSink {
  value: JsonValue | undefined = undefined;
  /** Position of the id; of duplicates the last one. */
  idRange: { readonly start: number; readonly end: number } | undefined = undefined;
  /** Start of an id that is not complete yet; -1 without one. */
  idStart = -1;
  result: ResultPositions | undefined = undefined;
  readonly scanner = new JsonScanner(this);
  readonly #open: Container[] = [];
  #key: string | undefined = undefined;
  /** Start of the key, and end of the previous member, in the result. */
  #keyStart = 0;
  #before = 0;
  /** True while a value is read that was not entered. */
  #isSkipping = false;
  #member: ResultMember | undefined = undefined;
  /** Characters of the texts of content blocks so far. */
  #textCharacters = 0;
  readonly #textOf: (member: ResultMember) => string;

  constructor(textOf: (member: ResultMember) => string) {
    this.#textOf = textOf;
  }

  onValue(kind: JsonKind, start: number): boolean {
    const parent = this.#open.at(-1);
    const key = this.#key;
    this.#key = undefined;
    const isElement = Array.isArray(parent?.value);
    const isStored = !parent || isElement || (key !== undefined && STORED[parent.path]?.has(key) === true);
    if (parent?.path === '.result' && !isElement && key !== undefined) this.#beginMember(key, start);
    if (!isStored) return this.#skip();
    if (parent?.path === '' && key === 'id') this.idStart = start;
    const path = parent ? (isElement ? `${parent.path}[]` : `${parent.path}.${key}`) : '';
    if (kind !== 'object' && kind !== 'array') {
      this.#open.push({ path, members: 0, value: undefined });
      this.#key = key;
      return true;
    }
    const value: JsonObject | JsonValue[] = kind === 'array' ? [] : {};
    this.#store(key, value);
    // Of other arrays and objects it only matters that they exist.
    if (kind === 'object' ? STORED[path] === undefined : STORED[`${path}[]`] === undefined) return this.#skip();
    this.#open.push({ path, members: 0, value });
    if (path === '.result') {
      this.result = { start: start + 1, isEmpty: true, members: [], textOf: this.#textOf };
      this.#before = start + 1;
    }
    return true;
  }

  onKey(start: number): void {
    const parent = this.#open.at(-1);
    if (parent && ++parent.members > MAX_MEMBERS) {
      this.#key = undefined;
      if (parent.path === '.result' && this.result) this.result.members = undefined;
      return this.scanner.leave();
    }
    const { token } = this.scanner;
    this.#key = token === undefined ? undefined : stringValue(token);
    if (parent?.path !== '.result') return;
    this.#keyStart = start;
    if (this.result) this.result.isEmpty = false;
    if (this.#member) this.#member.next = start;
    this.#member = undefined;
  }

  onScalar(): void {
    this.#open.pop();
    this.#store(this.#key, this.#key === 'text' ? this.#readText() : this.#readScalar());
    this.#key = undefined;
    this.#isSkipping = true;
  }

  onEnd(end: number): void {
    if (this.#isSkipping) this.#isSkipping = false;
    else this.#open.pop();
    if (this.idStart >= 0) {
      this.idRange = { start: this.idStart, end };
      this.idStart = -1;
    }
    const parent = this.#open.at(-1);
    if (parent?.path === '.result') {
      this.#before = end;
      if (this.#member) this.#member.end = end;
    }
    if (Array.isArray(parent?.value) && parent.value.length >= MAX_BLOCKS) this.scanner.leave();
  }

  /** Content may have a thousand texts of any length: memory for them must not depend on that. */
  #readText(): JsonValue {
    if (this.#textCharacters > MAX_TEXT_CHARACTERS) return '';
    const text = this.#readScalar();
    if (typeof text === 'string') this.#textCharacters += text.length;
    return text;
  }

  #readScalar(): JsonValue {
    const isLong = this.scanner.tokenLength > PLAIN_TEXT_BYTES;
    const token = isLong ? undefined : this.scanner.token;
    return token === undefined ? this.#startOfText() : JSON.parse(token);
  }

  #startOfText(): string {
    const start = this.scanner.tokenStart(PLAIN_TEXT_BYTES);
    if (!start.includes(BACKSLASH)) return stringStart(start);
    const { token } = this.scanner;
    return token === undefined ? stringStart(this.scanner.tokenStart()) : stringValue(token);
  }

  #beginMember(key: string, start: number): void {
    const { result } = this;
    if (!result || !POSITIONED.has(key)) return;
    this.#member = { key, before: this.#before, keyStart: this.#keyStart, start, end: start, next: undefined };
    if (result.members && result.members.length < MAX_POSITIONS) result.members.push(this.#member);
    else result.members = undefined;
  }

  #skip(): boolean {
    this.#isSkipping = true;
    return false;
  }

  #store(key: string | undefined, value: JsonValue): void {
    const parent = this.#open.at(-1)?.value;
    if (parent === undefined) this.value = value;
    else if (Array.isArray(parent)) parent.push(value);
    else if (key !== undefined) parent[key] = value;
  }
}

/**
 * A large message of an upstream, scanned while it arrives. Parsing 60 MiB of hostile text would block the event loop for
 * seconds and take a gigabyte. So a response is relayed as the bytes that arrived, with edits.
 */
export class LargeMessage {
  #bytes = new ChunkBuffer();
  readonly #scan = new MessageScan(({ start, end }) => Buffer.concat(this.#bytes.slice(start, end)).toString());
  /** Number of bytes that were taken. */
  #taken = 0;

  /** Scans the next chunk. */
  write(chunk: Buffer): void {
    this.#bytes.push(chunk);
    this.#scan.scanner.write(chunk);
  }

  /** Number of bytes so far. */
  get length(): number {
    return this.#taken + this.#bytes.length;
  }

  /** Whether bytes were taken: the message is sent on while it arrives. */
  get isTaken(): boolean {
    return this.#taken > 0;
  }

  /** The first bytes, at most so many. */
  start(bytes: number): Buffer {
    return Buffer.concat(this.#bytes.slice(0, Math.min(bytes, this.#bytes.length)));
  }

  /** Why the message cannot be relayed, as the kind and predicate of an error: the scan needs a byte for each level of nesting. */
  problem(maxDepth: number): { readonly kind: 'invalid' | 'too-large'; readonly what: string } | undefined {
    const { isInvalid, maxDepth: depth } = this.#scan.scanner;
    if (isInvalid) return { kind: 'invalid', what: 'answered with text that is not JSON' };
    return depth > maxDepth
      ? { kind: 'too-large', what: `answered with more than ${maxDepth} nested values` }
      : undefined;
  }

  /**
   * True if the message so far is a large result, as far as is known for the request with this id, and need not be held.
   */
  isRelayable(id: number): boolean {
    const { value, idRange } = this.#scan;
    if (this.length < RELAYED_BYTES) return false;
    if (!isJsonObject(value) || !('result' in value) || 'error' in value || value.method !== undefined) return false;
    return idRange === undefined || isSameId(id, value.id);
  }

  /** Length of the message with another id, if its own is known and `length` is its length. */
  lengthWithId(idText: string, length: number): number | undefined {
    const { idRange } = this.#scan;
    return idRange && length - (idRange.end - idRange.start) + Buffer.byteLength(idText);
  }

  /**
   * Takes the bytes that have arrived and were not taken yet, with another id; those of an incomplete id remain. `free` frees them,
   * when they are written.
   */
  take(idText: string): { readonly parts: readonly Buffer[]; free(): void } {
    const { idRange, idStart } = this.#scan;
    const bytes = this.#bytes;
    const end = idStart >= 0 ? idStart - this.#taken : bytes.length;
    const hasId = idRange !== undefined && idRange.start >= this.#taken;
    const before = hasId ? [...bytes.slice(0, idRange.start - this.#taken), Buffer.from(idText)] : [];
    const parts = [...before, ...bytes.slice(hasId ? idRange.end - this.#taken : 0, end)];
    this.#bytes = new ChunkBuffer();
    // Not a view: the chunks are freed.
    if (end < bytes.length) this.#bytes.push(Buffer.concat(bytes.slice(end, bytes.length)));
    this.#taken += end;
    return { parts, free: () => bytes.free() };
  }

  /**
   * The message with only those members that the relay, telemetry and the cache of resource links read; texts in it may be
   * truncated. Undefined if it is not JSON.
   */
  get value(): JsonValue | undefined {
    return this.#scan.scanner.isComplete ? this.#scan.value : undefined;
  }

  /** Positions in the result; undefined if it is not an object. */
  get result(): ResultPositions | undefined {
    return this.#scan.result;
  }

  /** Parses the message. Returns its size and the limits if that would take too long. */
  parse(): { readonly text: string; readonly value: unknown } | string {
    const { size } = this.#scan.scanner;
    if (this.length > MAX_PARSED_BYTES || size > MAX_PARSED_VALUES) {
      const limits = `at most ${MAX_PARSED_BYTES} bytes and ${MAX_PARSED_VALUES} values are allowed`;
      return `it has ${this.length} bytes and about ${size} values; ${limits} outside of responses`;
    }
    const text = Buffer.concat(this.#bytes.chunks).toString();
    return { text, value: tryParseJson(text) };
  }

  /** Returns the bytes with these edits of them, cut where the id is. Nothing may be written afterwards. */
  cut(edits: readonly Edit[] = []): ResponseBytes {
    const { idRange } = this.#scan;
    if (!idRange) {
      // An error without an id.
      const members = Buffer.concat(this.#bytes.chunks).indexOf('{') + 1;
      return {
        before: [...this.#bytes.slice(0, members), Buffer.from('"id":')],
        after: [Buffer.from(','), ...this.#bytes.slice(members, this.length)],
      };
    }
    const { start, end } = idRange;
    const free = () => this.#bytes.free();
    return { before: this.#edited(0, start, edits), after: this.#edited(end, this.length, edits), free };
  }

  /** Returns the bytes between two positions with the edits among them. */
  #edited(from: number, to: number, edits: readonly Edit[]): Buffer[] {
    const parts: Buffer[] = [];
    let at = from;
    for (const { start, end, text } of edits.toSorted((a, b) => a.start - b.start)) {
      if (start < at || end > to) continue;
      parts.push(...this.#bytes.slice(at, start), Buffer.from(text));
      at = end;
    }
    return [...parts, ...this.#bytes.slice(at, to)];
  }
}

/** Returns the edits of bytes that remove members with this key, with their commas. */
export function removalEdits(members: readonly ResultMember[], key: string): Edit[] {
  const edits: Edit[] = [];
  let first: ResultMember | undefined;
  for (const [at, member] of members.entries()) {
    if (member.key !== key) continue;
    first ??= member;
    const next = members[at + 1];
    // Neighbors are removed together: the comma after them, or else the one before them.
    if (next?.key === key && next.before === member.end) continue;
    const [start, end] = member.next === undefined ? [first.before, member.end] : [first.keyStart, member.next];
    edits.push({ start, end, text: '' });
    first = undefined;
  }
  return edits;
}
