import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/protocol/json/parse';
import { type JsonKind, JsonScanner, type JsonSink } from '@sluice/protocol/json/scanner';
import { stringStart, stringValue } from '@sluice/protocol/json/text';

/** Bodies from this size on are scanned as they arrive, not parsed. */
export const LARGE_RESPONSE_BYTES = 64 * 1024;

/** Larger errors are relayed unchanged. */
const MAX_PARSED_BYTES = 1024 * 1024;

/** Content blocks of which something is stored; telemetry and the cache of resource links need no more. */
const MAX_BLOCKS = 1_000;

/** Members that are stored, by the keys of the objects around them; `[]` are the elements of an array. */
const STORED: Readonly<Record<string, ReadonlySet<string>>> = {
  '': new Set(['id', 'result', 'error']),
  '.result': new Set(['isError', 'resultType', 'content', 'messages']),
  '.result.content': new Set(['type', 'text', 'uri']),
  '.result.content[]': new Set(['type', 'text', 'uri']),
  '.result.messages[]': new Set(['content']),
  '.result.messages[].content': new Set(['type', 'uri']),
  '.result.messages[].content[]': new Set(['type', 'uri']),
  '.error': new Set(['code', 'message']),
};

interface Container {
  readonly path: string;
  /** Undefined for one that is not entered. */
  readonly value: JsonObject | JsonValue[] | undefined;
}

/**
 * Scan of a large JSON-RPC response while it arrives. Parsing 60 MiB of hostile text would block the event loop for seconds
 * and take a gigabyte. `value` is the response with only those members that telemetry and the cache of resource links read;
 * texts in it may be truncated.
 */
export class LargeResponseScan implements JsonSink {
  value: JsonValue | undefined = undefined;
  /** Position of the id in the body; of duplicates the last one. */
  #idRange: { readonly start: number; readonly end: number } | undefined = undefined;
  readonly #scanner = new JsonScanner(this);
  readonly #open: Container[] = [];
  #key: string | undefined = undefined;
  /** True while a value is read that was not entered. */
  #isSkipping = false;
  #idStart = -1;

  /** Scans the next chunk of the body. */
  write(chunk: Buffer): void {
    this.#scanner.write(chunk);
  }

  /** Returns this scan of the whole body, or undefined if the body must be parsed: errors of an upstream may be rewritten. */
  accept(body: Buffer): this | undefined {
    if (!this.#scanner.isComplete) this.value = undefined;
    const isError = isJsonObject(this.value) && 'error' in this.value;
    return isError && body.length <= MAX_PARSED_BYTES ? undefined : this;
  }

  /** Returns the body with another id. */
  withId(body: Buffer, idText: string): Buffer[] {
    const { start, end } = this.#idRange ?? { start: -1, end: -1 };
    if (start >= 0) return [body.subarray(0, start), Buffer.from(idText), body.subarray(end)];
    // An error without an id.
    const members = body.indexOf('{') + 1;
    return [body.subarray(0, members), Buffer.from(`"id":${idText},`), body.subarray(members)];
  }

  onValue(kind: JsonKind, start: number): boolean {
    const parent = this.#open.at(-1);
    const key = this.#key;
    this.#key = undefined;
    const isElement = Array.isArray(parent?.value);
    const isStored = !parent || isElement || (key !== undefined && STORED[parent.path]?.has(key) === true);
    if (!isStored) return this.#skip();
    if (parent?.path === '' && key === 'id') this.#idStart = start;
    const path = parent ? (isElement ? `${parent.path}[]` : `${parent.path}.${key}`) : '';
    if (kind !== 'object' && kind !== 'array') {
      this.#open.push({ path, value: undefined });
      this.#key = key;
      return true;
    }
    const value: JsonObject | JsonValue[] = kind === 'array' ? [] : {};
    this.#store(key, value);
    // Of other arrays and objects it only matters that they exist.
    if (kind === 'object' ? STORED[path] === undefined : STORED[`${path}[]`] === undefined) return this.#skip();
    this.#open.push({ path, value });
    return true;
  }

  onKey(): void {
    const { token } = this.#scanner;
    this.#key = token === undefined ? undefined : stringValue(token);
  }

  onScalar(): void {
    this.#open.pop();
    const { token } = this.#scanner;
    const value: JsonValue = token === undefined ? stringStart(this.#scanner.tokenStart) : JSON.parse(token);
    this.#store(this.#key, value);
    this.#key = undefined;
    this.#isSkipping = true;
  }

  onEnd(end: number): void {
    if (this.#isSkipping) this.#isSkipping = false;
    else this.#open.pop();
    if (this.#idStart >= 0) {
      this.#idRange = { start: this.#idStart, end };
      this.#idStart = -1;
    }
    const { value } = this.#open.at(-1) ?? {};
    if (Array.isArray(value) && value.length >= MAX_BLOCKS) this.#scanner.leave();
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
