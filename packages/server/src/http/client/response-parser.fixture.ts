import { MalformedMessage, MessageParser, type MessageSink } from '../message-parser.ts';
import type { RawHeaders, ResponseHeaders } from './client.ts';
import { ResponseFormat, type ResponseHead } from './response-parser.ts';

/** Result of parsing some bytes followed by the end of input. */
export interface Reading {
  readonly outcome: 'complete' | 'incomplete' | MalformedMessage['kind'];
  readonly status: number;
  /** Text behind the status. */
  readonly phrase: string;
  readonly headers: ResponseHeaders;
  /** Names and values, alternating. */
  readonly raw: RawHeaders;
  /** The body as latin1. */
  readonly body: string;
  readonly persistent: boolean;
  /** Bytes that belong to the response. */
  readonly length: number;
  /** Reason for the rejection. */
  readonly reason: string;
}

class Collector implements MessageSink<ResponseHead> {
  status = 0;
  phrase = '';
  headers: ResponseHeaders = {};
  raw: RawHeaders = [];
  body = '';

  onHead({ status, headers, raw, reason: phrase }: ResponseHead): void {
    Object.assign(this, { status, headers, raw, phrase });
  }

  onBody(buffer: Buffer, start: number, end: number): void {
    this.body += buffer.toString('latin1', start, end);
  }
}

/** Parses one response from input that arrives in these chunks and then ends. */
export function read(...pieces: readonly Buffer[]): Reading {
  return readAnswer(pieces, false);
}

/** Like {@link read}, for a response to HEAD if `headOnly`. */
export function readAnswer(pieces: readonly Buffer[], headOnly: boolean): Reading {
  const sink = new Collector();
  const format = new ResponseFormat();
  const parser = new MessageParser(format, sink);
  format.headOnly = headOnly;
  let length = 0;
  let outcome: Reading['outcome'];
  let reason = '';
  try {
    // Copies, since the parser writes to its input.
    for (const piece of pieces) if (!parser.done) length += parser.execute(Buffer.from(piece), 0, piece.length);
    outcome = parser.done || parser.finish() ? 'complete' : 'incomplete';
  } catch (error) {
    if (!(error instanceof MalformedMessage)) throw error;
    outcome = error.kind;
    reason = error.message;
  }
  const { status, phrase, headers, raw, body } = sink;
  return { outcome, status, phrase, headers, raw, body, persistent: format.persistent, length, reason };
}

/** The same bytes cut in two at every place, and cut into single bytes. */
export function* cuts(bytes: Buffer): Generator<Buffer[]> {
  for (let at = 1; at < bytes.length; at++) yield [bytes.subarray(0, at), bytes.subarray(at)];
  yield Array.from(bytes, (byte) => Buffer.of(byte));
}
