import { tryParseJson } from '@sluice/protocol/json/parse';
import { type JsonKind, JsonScanner, type JsonSink } from '@sluice/protocol/json/scanner';
import { stringValue } from '@sluice/protocol/json/text';
import { type AnswerFields, type FieldTree, MAX_NAME_CHARACTERS } from './answer-fields.ts';

/** Longest token of a field: each character may have an escape. */
const MAX_TOKEN_BYTES = 6 * MAX_NAME_CHARACTERS + 2;
/** Elements of an array that are read. */
const MAX_ELEMENTS = 1024;

/** A container that is read. */
interface Frame {
  readonly tree: FieldTree;
  readonly isArray: boolean;
  /** Elements so far. */
  elements: number;
  /** Position of the choice, which may follow its fields. */
  at: number;
  finish: string | undefined;
}

/**
 * Reads the fields of JSON of any size as it arrives, and whether it is JSON. What has no fields is skipped by the scanner;
 * no value is stored.
 */
export class AnswerScan implements JsonSink {
  readonly scanner = new JsonScanner(this);
  /** Number of bytes of the value, once it is complete and an object. */
  objectBytes: number | undefined = undefined;
  readonly #tree: FieldTree;
  readonly #fields: AnswerFields;
  readonly #open: Frame[] = [];
  /** Of the next value, within an object. */
  #member: FieldTree | undefined = undefined;
  /** Of the scalar that is read. */
  #scalar: FieldTree | undefined = undefined;
  /** A value that has begun and was not entered. */
  #isSkipping = false;

  constructor(tree: FieldTree, fields: AnswerFields) {
    this.#tree = tree;
    this.#fields = fields;
  }

  onValue(kind: JsonKind): boolean {
    const frame = this.#open.at(-1);
    const tree = frame === undefined ? this.#tree : frame.isArray ? frame.tree.each : this.#member;
    if (frame?.isArray) frame.elements++;
    const isContainer = kind === 'object' || kind === 'array';
    if (kind === 'object' && tree?.field !== undefined) this.#fields.set(tree.field, {}, frame?.at ?? 0);
    if (tree && (kind === 'object' ? tree.members.size > 0 : kind === 'array' && tree.each !== undefined)) {
      const at = frame?.isArray ? frame.elements - 1 : (frame?.at ?? 0);
      this.#open.push({ tree, isArray: kind === 'array', elements: 0, at, finish: undefined });
      return true;
    }
    this.#isSkipping = true;
    this.#scalar = isContainer ? undefined : tree;
    return this.#scalar?.field !== undefined;
  }

  onKey(): void {
    const { token } = this.scanner;
    this.#member = token === undefined ? undefined : this.#open.at(-1)?.tree.members.get(stringValue(token));
  }

  onScalar(): void {
    const frame = this.#open.at(-1);
    const field = this.#scalar?.field;
    if (field === undefined) return;
    // Of an error, only whether it is empty is read.
    const isLong = this.scanner.tokenLength > MAX_TOKEN_BYTES;
    if (isLong && field !== 'error') return;
    const value = isLong ? '…' : tryParseJson(this.scanner.token ?? '');
    if (typeof value !== 'string' && typeof value !== 'number') return;
    if (frame && field === 'index' && typeof value === 'number') frame.at = value;
    else if (frame?.tree.hasIndex && typeof value === 'string') frame.finish = value;
    else this.#fields.set(field, value, frame?.at ?? 0);
  }

  onEnd(end: number): void {
    if (this.#isSkipping) {
      this.#isSkipping = false;
      return;
    }
    const frame = this.#open.pop();
    if (frame?.finish !== undefined) this.#fields.set('finish', frame.finish, frame.at);
    const outer = this.#open.at(-1);
    if (outer === undefined) this.objectBytes = frame?.isArray ? undefined : end;
    else if (outer.isArray && outer.elements >= MAX_ELEMENTS) this.scanner.leave();
  }
}
