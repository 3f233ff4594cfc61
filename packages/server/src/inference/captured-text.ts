/** The longest text that is taken, in characters. */
export const LONGEST_NAME = 256;
/** Each character may be written as an escape of six. */
const MOST_BYTES = LONGEST_NAME * 6;

/** The text of one JSON string after the other, of which each comes in pieces. */
export class CapturedText {
  /** Whether the string being read is wanted. */
  active = false;
  #bytes: Buffer | undefined = undefined;
  #length = 0;

  /** A string begins; `wanted` or not. */
  begin(wanted: boolean): void {
    this.active = wanted;
    this.#length = 0;
  }

  /** More of what stands between the quotes, as it is spelled. */
  add(chunk: Buffer, from: number, to: number): void {
    if (!this.active) return;
    const length = this.#length + to - from;
    // What is too long stays so.
    this.#length = Math.min(length, MOST_BYTES + 1);
    if (length > MOST_BYTES) return;
    this.#bytes ??= Buffer.allocUnsafeSlow(MOST_BYTES);
    chunk.copy(this.#bytes, length - to + from, from, to);
  }

  /** The string has ended: its text, where it is neither empty nor longer than {@link LONGEST_NAME}. */
  end(): string | undefined {
    if (this.#length > MOST_BYTES) return undefined;
    const spelled = this.#bytes?.toString('utf8', 0, this.#length) ?? '';
    const text: unknown = spelled.includes('\\') ? JSON.parse(`"${spelled}"`) : spelled;
    return typeof text === 'string' && text !== '' && text.length <= LONGEST_NAME ? text : undefined;
  }
}
