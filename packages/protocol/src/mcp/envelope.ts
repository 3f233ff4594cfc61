import { type JsonKind, JsonScanner, type JsonSink, type MAX_KEY_BYTES } from '../json/scanner.ts';
import type { Member } from '../json/text.ts';

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
  /** Key of an object, or the empty key of a batch, that has more members than allowed; only the first ones were scanned. */
  readonly crowded: string | undefined;
  /** Whether the key of a member exceeds {@link MAX_KEY_BYTES}. */
  readonly hasLongKey: boolean;
}

/** Objects whose members are found: the key of each by the number of objects around it. */
const ENTERED: readonly (readonly string[])[] = [[''], ['params'], ['_meta', 'arguments']];

class EnvelopeSink implements JsonSink {
  root: ScannedMember = newMember('');
  crowded: string | undefined = undefined;
  hasLongKey = false;
  readonly scanner = new JsonScanner(this);
  readonly #maxMembers: number;
  readonly #open: ScannedMember[] = [];
  #next = this.root;
  /** The value that has begun last, unless it was entered. */
  #skipped: ScannedMember | undefined = undefined;

  constructor(maxMembers: number) {
    this.#maxMembers = maxMembers;
  }

  onValue(kind: JsonKind, start: number): boolean {
    const depth = this.#open.length;
    const parent = this.#open[depth - 1];
    if (parent?.kind === 'array') this.#addMember(parent, '');
    const value = this.#next;
    value.kind = kind;
    value.start = start;
    const isBatch = kind === 'array' && depth === 0;
    if (isBatch || (kind === 'object' && parent?.kind !== 'array' && ENTERED[depth]?.includes(value.key))) {
      value.members = [];
      this.#open.push(value);
      return true;
    }
    this.#skipped = value;
    return false;
  }

  onKey(key: string | undefined): void {
    if (key === undefined) this.hasLongKey = true;
    const parent = this.#open[this.#open.length - 1];
    if (parent) this.#addMember(parent, key ?? '');
    this.#limitMembers(parent);
  }

  onScalar(): void {}

  onEnd(end: number): void {
    const ended = this.#skipped ?? this.#open.pop();
    this.#skipped = undefined;
    if (ended) ended.end = end;
    const parent = this.#open[this.#open.length - 1];
    if (parent?.kind === 'array') this.#limitMembers(parent);
  }

  #addMember(parent: ScannedMember, key: string): void {
    this.#next = newMember(key);
    parent.members?.push(this.#next);
  }

  #limitMembers(parent: ScannedMember | undefined): void {
    if (!parent?.members || parent.members.length <= this.#maxMembers) return;
    this.crowded = parent.key;
    this.scanner.leave();
  }
}

function newMember(key: string): ScannedMember {
  return { key, start: 0, end: 0, kind: 'null', members: undefined };
}

/**
 * Finds the members of a message, of its `params`, and of `_meta` and `arguments` in them, without parsing values: a client
 * chooses what is in a body, and parsing 4 MiB of small values takes a second. Returns the offset of the first byte that is
 * not JSON for an invalid body. `text`: the body as text, in which the returned ranges are positions.
 */
export function scanEnvelope(body: Buffer, text: string, maxMembers: number): Envelope | number {
  const sink = new EnvelopeSink(maxMembers);
  sink.scanner.write(body);
  if (!sink.scanner.isComplete) return sink.scanner.offset;
  const { root, crowded, hasLongKey } = sink;
  if (text.length !== body.length) toTextPositions(root, body);
  return { root, depth: sink.scanner.maxDepth, crowded, hasLongKey };
}

/** Replaces offsets in bytes by positions in the text, for a body that is not ASCII. */
function toTextPositions(root: ScannedMember, body: Buffer): void {
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
