import { type JsonKind, JsonScanner, type JsonSink } from '@sluice/protocol/json/scanner';
import { stringValue } from '@sluice/protocol/json/text';
import { MAX_NAME_CHARACTERS } from './answer-fields.ts';

const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);

/** Finds the members of a request that show whether it is one for a completion, while it is proxied. */
export class RequestFields implements JsonSink {
  /** Member `model`, if it is a string of 1 to 256 characters. */
  model: string | undefined = undefined;
  /** Whether a member `messages` is an array. */
  hasMessages = false;
  /** Whether the member that this API has the conversation in is a text or an array. */
  hasConversation = false;
  /** Length of the byte order mark at the beginning. */
  bomBytes = 0;
  readonly #scanner = new JsonScanner(this);
  readonly #conversation: string | undefined;
  #key: string | undefined = undefined;
  #started = false;

  /** `conversation`: the member of the API that the path of the request is of. */
  constructor(conversation?: string) {
    this.#conversation = conversation;
  }

  /** Whether the bytes cannot be the beginning of JSON. */
  get isInvalid(): boolean {
    return this.#scanner.isInvalid;
  }

  /** Whether the bytes are one JSON value. */
  get isComplete(): boolean {
    return this.#scanner.isComplete;
  }

  /** Depth of the deepest array or object. */
  get maxDepth(): number {
    return this.#scanner.maxDepth;
  }

  /** Scans the next chunk. */
  write(chunk: Buffer): void {
    this.#scanner.write(this.#started ? chunk : this.#withoutBom(chunk));
  }

  onValue(kind: JsonKind): boolean {
    if (this.#key === undefined) return kind === 'object';
    if (this.#key === 'messages' && kind === 'array') this.hasMessages = true;
    // Messages are never a text.
    const mayBeText = kind === 'string' && this.#key !== 'messages';
    if (this.#key === this.#conversation && (kind === 'array' || mayBeText)) this.hasConversation = true;
    return kind === 'string' && this.#key === 'model';
  }

  onKey(): void {
    this.#key = stringValue(this.#scanner.token ?? '""');
  }

  onScalar(): void {
    const value = stringValue(this.#scanner.token ?? '""');
    this.model = value !== '' && value.length <= MAX_NAME_CHARACTERS ? value : undefined;
  }

  onEnd(): void {}

  /** A byte order mark is not JSON, but common parsers skip it. */
  #withoutBom(chunk: Buffer): Buffer {
    let at = 0;
    while (at < chunk.length && chunk[at] === BYTE_ORDER_MARK[this.bomBytes]) {
      at++;
      this.bomBytes++;
    }
    if (at === chunk.length) return chunk.subarray(at);
    this.#started = true;
    // Part of a byte order mark is invalid.
    return this.bomBytes % BYTE_ORDER_MARK.length === 0 ? chunk.subarray(at) : BYTE_ORDER_MARK;
  }
}
