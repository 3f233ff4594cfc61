import { ChunkBuffer } from '@sluice/protocol/chunk-buffer';
import type { ResponseHeaders } from '../../http/client/client.ts';
import { mediaType } from '../../http/client/response-parser.ts';

const OPEN_BRACE = 0x7b;
/** First bytes of JSON and of web pages, which no line of an event stream has. */
const NO_EVENT_STARTS: ReadonlySet<number | undefined> = new Set([OPEN_BRACE, 0x5b, 0x3c]);
/** In latin1, like {@link PREFIXES}. */
const BYTE_ORDER_MARK = '\u00ef\u00bb\u00bf';
/** Starts of lines of an event stream, by which one is recognized under any content type. */
const EVENT_FIELDS = [':', 'data:', 'event:', 'id:', 'retry:'];
/** Starts of a body that need more than one byte. */
const PREFIXES = [...EVENT_FIELDS, BYTE_ORDER_MARK];
const START_BYTES = 6;

/** The beginning of a body, until its first bytes after white space say what it is, under any content type. */
export class BodyStart {
  /** Bytes of a byte order mark, which is dropped. */
  skippedBytes = 0;
  /** The first bytes, as latin1, without white space. */
  #start = '';
  #body = new ChunkBuffer();

  /** Adds bytes. Returns what the body is once that is known; one that is longer than `maxBytes` before is JSON, if anything. */
  push(chunk: Buffer, maxBytes: number): 'events' | 'json' | 'other' | undefined {
    for (let at = 0; at < chunk.length && this.#start.length < START_BYTES; at++) {
      const byte = chunk[at] ?? 0;
      if (this.#start !== '' || !isSpace(byte)) this.#start += String.fromCharCode(byte);
      if (this.#start === BYTE_ORDER_MARK) {
        this.#start = '';
        this.skippedBytes = BYTE_ORDER_MARK.length;
      }
    }
    const start = this.#start;
    const isOpen = start === '' || PREFIXES.some((prefix) => prefix.startsWith(start) && prefix !== start);
    this.#body.push(chunk);
    if (isOpen && this.#body.length <= maxBytes) return undefined;
    if (EVENT_FIELDS.some((field) => start.startsWith(field))) return 'events';
    return start === '' || start.startsWith('{') || start.startsWith('[') ? 'json' : 'other';
  }

  /** Returns the bytes so far, and releases them. */
  take(): Buffer {
    const body = this.#body.concat().subarray(this.skippedBytes);
    this.#body = new ChunkBuffer();
    return body;
  }
}

/** True if a body that begins like this is a JSON object. */
export function isObjectStart(byte: number | undefined): boolean {
  return byte === OPEN_BRACE;
}

/** True if the label of a response is that of an event stream. */
export function isEventStream(headers: ResponseHeaders): boolean {
  const { 'content-type': type } = headers;
  return (
    mediaType(headers) === 'text/event-stream' ||
    (Array.isArray(type) && type.every((line) => /^text\/event-stream\b/i.test(line)))
  );
}

/** True if a body that begins like this is no event stream, whatever its label says. */
export function isNoEventStream(chunk: Buffer): boolean {
  return NO_EVENT_STARTS.has(chunk.find((byte) => !isSpace(byte)));
}

function isSpace(byte: number): boolean {
  return byte === 0x20 || byte === 0x09 || byte === 0x0a || byte === 0x0d;
}
