import type { ActionFault, ActionLogLevel, ActionResponse } from './action.ts';
import type { FromHost } from './host/messages.ts';

const HEAD_BYTES = 4;

/** A frame of a child process's pipe: its length (32 bits, little endian) and its bytes. */
export function frame(bytes: Uint8Array): Buffer {
  const framed = Buffer.allocUnsafe(HEAD_BYTES + bytes.length);
  framed.writeUInt32LE(bytes.length);
  framed.set(bytes, HEAD_BYTES);
  return framed;
}

/** How much is taken of frames, in bytes. */
export interface FrameLimits {
  /** The longest first frame (default: as any other). */
  readonly first?: number | undefined;
  /** All of them with their heads (default: without end). */
  readonly all?: number | undefined;
}

/** Puts frames together of the pieces that a pipe gives. */
export class FrameReader {
  readonly #maxBytes: number;
  #maxNext: number;
  #left: number;
  #pieces: Buffer[] = [];
  #length = 0;

  /** `maxBytes`: how long a frame may be. */
  constructor(maxBytes: number, { first = maxBytes, all = Number.POSITIVE_INFINITY }: FrameLimits = {}) {
    this.#maxBytes = maxBytes;
    this.#maxNext = first;
    this.#left = all;
  }

  /**
   * The frames that this piece completes; undefined when one is too long, or all are, after which nothing may be read
   * any more.
   */
  take(piece: Buffer): Buffer[] | undefined {
    this.#pieces.push(piece);
    this.#length += piece.length;
    const frames: Buffer[] = [];
    while (this.#length >= HEAD_BYTES) {
      const length = this.#first(HEAD_BYTES).readUInt32LE();
      const whole = HEAD_BYTES + length;
      if (length > this.#maxNext || whole > this.#left) return undefined;
      if (this.#length < whole) break;
      const bytes = this.#first(whole);
      frames.push(bytes.subarray(HEAD_BYTES, whole));
      this.#pieces[0] = bytes.subarray(whole);
      this.#length -= whole;
      this.#left -= whole;
      this.#maxNext = this.#maxBytes;
    }
    return frames;
  }

  /** The first piece, made long enough. */
  #first(length: number): Buffer {
    const [first] = this.#pieces;
    if (first !== undefined && first.length >= length) return first;
    const joined = Buffer.concat(this.#pieces);
    this.#pieces = [joined];
    return joined;
  }
}

/**
 * The longest frame that a host may send, in bytes: the JSON of a response or of a question has 1 MiB at most, which the
 * host itself sees to (`host/inside.ts`), and stands in a message.
 */
export const MAX_WORD_BYTES = 1024 * 1024 + 1024;

/** UTF-16 units of a line of the log, and of what is told of a failure; each has six bytes at most as JSON. */
const MAX_LINE = 4096;
const MAX_MESSAGE = 300;
/** What is neither response nor question. Many lines of the log may come in one run. */
const MAX_SHORT_BYTES = 32 * 1024;

/** A message has a response, and that has a list. */
const MAX_OPENED = 3;
/** Three members of a message, and three of a response. */
const MAX_COLONS = 6;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;
const LEFT_BRACKET = 0x5b;
const LEFT_BRACE = 0x7b;

/**
 * What a host process says, if it is anything that one may say. A host may have been taken over: what it costs to refuse
 * what it says must not depend on it, so this stops at the first thing that is wrong, and what has another structure than
 * any message is not parsed at all.
 */
export function fromHost(bytes: Buffer): FromHost | undefined {
  if (bytes.length > MAX_WORD_BYTES || !hasStructure(bytes)) return undefined;
  try {
    const word = members(JSON.parse(bytes.toString()));
    const isLong = bytes.length > MAX_SHORT_BYTES && word.kind !== 'done' && word.kind !== 'question';
    return isLong ? undefined : parseHostMessage(word);
  } catch {
    return undefined;
  }
}

/** Whether JSON opens no more objects and lists, and has no more members, than a message. */
function hasStructure(bytes: Buffer): boolean {
  let opened = 0;
  let colons = 0;
  let quoted = false;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at];
    if (quoted) {
      if (byte === BACKSLASH) at++;
      else if (byte === QUOTE) quoted = false;
    } else if (byte === QUOTE) {
      quoted = true;
    } else if (byte === LEFT_BRACE || byte === LEFT_BRACKET) {
      if (++opened > MAX_OPENED) return false;
    } else if (byte === COLON && ++colons > MAX_COLONS) {
      return false;
    }
  }
  return true;
}

/** It is no word of a host. Its message is seen by nobody. */
class ProtocolError extends Error {}

function parseHostMessage(word: Members): FromHost {
  switch (word.kind) {
    case 'ready':
    case 'loaded':
      return { kind: word.kind };
    case 'log':
      return { kind: 'log', level: levelOf(word.level), message: text(word.message, MAX_LINE) };
    case 'done':
      return {
        kind: 'done',
        ...(word.response === undefined ? undefined : { response: responseOf(members(word.response)) }),
        ignored: count(word.ignored),
      };
    case 'failed':
      return { kind: 'failed', fault: faultOf(word.fault), message: text(word.message, MAX_MESSAGE) };
    case 'question':
      return questionOf(word);
    default:
      throw new ProtocolError();
  }
}

function responseOf(response: Members): ActionResponse {
  const { kind } = response;
  switch (kind) {
    case 'pass':
      return { kind };
    case 'block':
    case 'reject_malformed':
      return { kind, reason: text(response.reason) };
    case 'warn':
      return { kind, message: text(response.message) };
    case 'filter_tools':
      return { kind, tools: texts(response.tools) };
    case 'set_metadata':
      return { kind, key: text(response.key), value: text(response.value) };
    default:
      throw new ProtocolError();
  }
}

function questionOf(question: Members): FromHost {
  const kind = 'question';
  const { ask } = question;
  switch (ask) {
    case 'tools':
      return question.namespace === undefined ? { kind, ask } : { kind, ask, namespace: text(question.namespace) };
    case 'tool':
      return { kind, ask, name: text(question.name) };
    case 'copy':
      return { kind, ask, name: text(question.name), namespace: text(question.namespace) };
    case 'history':
      return { kind, ask, conversation: text(question.conversation) };
    case 'verify':
      return { kind, ask, raw: text(question.raw) };
    default:
      throw new ProtocolError();
  }
}

function levelOf(level: unknown): ActionLogLevel {
  if (level === 'debug' || level === 'info' || level === 'warn' || level === 'error') return level;
  throw new ProtocolError();
}

/** Of the others only this process knows. */
function faultOf(fault: unknown): ActionFault {
  if (fault === 'trap' || fault === 'memory' || fault === 'limit') return fault;
  throw new ProtocolError();
}

function count(value: unknown): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value;
  throw new ProtocolError();
}

function text(value: unknown, longest = MAX_WORD_BYTES): string {
  if (typeof value === 'string' && value.length <= longest) return value;
  throw new ProtocolError();
}

function texts(value: unknown): string[] {
  if (!Array.isArray(value)) throw new ProtocolError();
  const list: readonly unknown[] = value;
  return list.map((item) => text(item));
}

/** What JSON has as an object. */
type Members = Readonly<Record<string, unknown>>;

function members(value: unknown): Members {
  if (isMembers(value)) return value;
  throw new ProtocolError();
}

function isMembers(value: unknown): value is Members {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
