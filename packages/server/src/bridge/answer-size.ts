import { ServiceError } from './service-error.ts';

/** Most that the texts of an answer may take in it: it is held whole (decisions 8). */
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;

/** What a text counts besides itself, since each has a place in lists and a block in the result, an empty one too. */
export const BLOCK_BYTES = 64;

/** What is spelled with two characters; other controls take six. */
const SHORT = '"\\\b\t\n\f\r';

/**
 * What the texts that services send become in the JSON of an answer, which may be six times as much, and for texts without
 * a character without bounds. Counted before anything is made of them.
 */
export class AnswerSize {
  readonly #most: number;
  readonly #blockBytes: number;
  #bytes = 0;

  constructor(most = MAX_ANSWER_BYTES, blockBytes = BLOCK_BYTES) {
    this.#most = most;
    this.#blockBytes = blockBytes;
  }

  /** Counts a text; false when it is too much. */
  add(text: string): boolean {
    this.#bytes += this.#blockBytes + jsonBytes(text);
    return this.#bytes <= this.#most;
  }

  /** What is said where it is too much. */
  get excess(): string {
    return `more than ${this.#most} bytes of JSON, where each text counts for ${this.#blockBytes} more`;
  }
}

/**
 * The texts of a reply, when an answer can hold them; throws ServiceError otherwise. `what` names who sent them;
 * `blockBytes` is what each has beside it.
 */
export function boundedContent(what: string, content: readonly string[], blockBytes = BLOCK_BYTES): readonly string[] {
  const size = new AnswerSize(MAX_ANSWER_BYTES, blockBytes);
  for (const text of content) {
    if (!size.add(text))
      throw new ServiceError('SERVICE_UNAVAILABLE', `${what} sent a reply that makes ${size.excess}`);
  }
  return content;
}

/** The bytes of UTF-8 that a text takes between the quotes of a JSON string. */
export function jsonBytes(text: string): number {
  let bytes = text.length;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code >= 0x80) bytes += code < 0x800 || (code >= 0xd800 && code <= 0xdfff) ? 1 : 2;
    else if (code < 0x20 || code === 0x22 || code === 0x5c) bytes += SHORT.includes(text.charAt(at)) ? 1 : 5;
  }
  return bytes;
}
