/**
 * What an answer is written to: an HTTP response, or one message's place in the answer to a batch. The members of
 * node:http's `ServerResponse` that answers need, with its meanings. An event stream is written in whole events, so that
 * those of several answers can share one stream.
 */
export interface AnswerTarget {
  readonly destroyed: boolean;
  readonly headersSent: boolean;
  readonly writableEnded: boolean;
  /** False for an answer that is another's: no date is put on it. */
  sendDate?: boolean;
  /** False when the connection ends with the answer. */
  shouldKeepAlive?: boolean;
  /** The status line's own text, where it is another's. */
  statusMessage?: string;
  writeHead(status: number, headers: string[]): unknown;
  write(chunk: string | Buffer): boolean;
  end(chunk?: string | Buffer): unknown;
  cork(): void;
  destroy(): unknown;
  on(event: 'close' | 'drain', listener: () => void): unknown;
  once(event: 'close' | 'drain', listener: () => void): unknown;
}
