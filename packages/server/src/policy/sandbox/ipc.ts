import type { ActionFault, ActionLogLevel, ActionResponse } from './action.ts';

/** Core module of an action. */
export interface ModuleInfo {
  readonly name: string;
  /** Maximum memory of an instance, in pages of 64 KiB. */
  readonly pages: number;
}

/**
 * Message from the service to a host process. `load` is followed by a frame with the glue and one per module, `run` by a
 * frame with the evaluation context as JSON, `result` by a frame with the JSON result of the last host function call.
 */
export type HostCommand =
  | { readonly kind: 'load'; readonly action: string; readonly modules: readonly ModuleInfo[] }
  | { readonly kind: 'run'; readonly action: string }
  | { readonly kind: 'result' };

/** Call of a host function; the host process blocks until it has the result. */
export type HostCall =
  | { readonly function: 'tools'; readonly namespace?: string }
  | { readonly function: 'tool'; readonly name: string }
  | { readonly function: 'copy'; readonly name: string; readonly namespace: string }
  | { readonly function: 'history'; readonly conversation: string }
  | { readonly function: 'verify'; readonly raw: string };

/** Message from a host process to the service. */
export type HostMessage =
  | { readonly kind: 'ready' }
  | { readonly kind: 'loaded' }
  | ({ readonly kind: 'call' } & HostCall)
  | { readonly kind: 'log'; readonly level: ActionLogLevel; readonly message: string }
  | { readonly kind: 'done'; readonly response?: ActionResponse; readonly ignored: number }
  | { readonly kind: 'failed'; readonly fault: ActionFault; readonly message: string };

const HEADER_BYTES = 4;

/** Encodes a frame: the length of the payload (32 bits, little endian), then the payload. */
export function encodeFrame(payload: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(HEADER_BYTES + payload.length);
  frame.writeUInt32LE(payload.length);
  frame.set(payload, HEADER_BYTES);
  return frame;
}

/** Limits of received frames, in bytes. */
export interface FrameLimits {
  /** Maximum length of the first frame (default: as for every frame). */
  readonly first?: number | undefined;
  /** Maximum length of all frames together, headers included (default: unlimited). */
  readonly total?: number | undefined;
}

/** Incremental decoder of frames. */
export class FrameReader {
  readonly #maxBytes: number;
  #maxNextBytes: number;
  #remainingBytes: number;
  #chunks: Buffer[] = [];
  #bufferedBytes = 0;

  /** `maxBytes`: maximum length of a frame. */
  constructor(maxBytes: number, { first = maxBytes, total = Number.POSITIVE_INFINITY }: FrameLimits = {}) {
    this.#maxBytes = maxBytes;
    this.#maxNextBytes = first;
    this.#remainingBytes = total;
  }

  /** Returns the frames that the chunk completes; undefined when a limit is exceeded, after which reading must stop. */
  push(chunk: Buffer): Buffer[] | undefined {
    this.#chunks.push(chunk);
    this.#bufferedBytes += chunk.length;
    const frames: Buffer[] = [];
    while (this.#bufferedBytes >= HEADER_BYTES) {
      const length = this.#joined(HEADER_BYTES).readUInt32LE();
      const frameBytes = HEADER_BYTES + length;
      if (length > this.#maxNextBytes || frameBytes > this.#remainingBytes) return undefined;
      if (this.#bufferedBytes < frameBytes) break;
      const bytes = this.#joined(frameBytes);
      frames.push(bytes.subarray(HEADER_BYTES, frameBytes));
      this.#chunks[0] = bytes.subarray(frameBytes);
      this.#bufferedBytes -= frameBytes;
      this.#remainingBytes -= frameBytes;
      this.#maxNextBytes = this.#maxBytes;
    }
    return frames;
  }

  /** The first chunk, joined with the following ones if it is shorter than `length`. */
  #joined(length: number): Buffer {
    const [first] = this.#chunks;
    if (first !== undefined && first.length >= length) return first;
    const joined = Buffer.concat(this.#chunks);
    this.#chunks = [joined];
    return joined;
  }
}

/**
 * Maximum frame from a host process, in bytes: the host limits the JSON of a response or of call arguments to 1 MiB
 * (`host/guest-realm.ts`); the rest is the message around it.
 */
export const MAX_HOST_FRAME_BYTES = 1024 * 1024 + 1024;

/** UTF-16 units of a log line and of a failure message; each takes up to six bytes as JSON. */
const MAX_LOG_LINE_LENGTH = 4096;
const MAX_FAILURE_MESSAGE_LENGTH = 300;
/** Maximum message other than a response or a call. A run may send many log lines. */
const MAX_SHORT_MESSAGE_BYTES = 32 * 1024;

/** A message contains a response, and that contains a list. */
const MAX_NESTED = 3;
/** Three members of a message and three of a response. */
const MAX_MEMBERS = 6;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;
const LEFT_BRACKET = 0x5b;
const LEFT_BRACE = 0x7b;

/**
 * Parses a frame from a host process; undefined if it is not a valid message. A compromised host must not control the
 * cost of rejecting its messages, so parsing stops at the first violation, and JSON with more structure than any valid
 * message is not parsed at all.
 */
export function parseHostMessage(bytes: Buffer): HostMessage | undefined {
  if (bytes.length > MAX_HOST_FRAME_BYTES || !hasMessageStructure(bytes)) return undefined;
  try {
    const message = objectOf(JSON.parse(bytes.toString()));
    const isTooLong = bytes.length > MAX_SHORT_MESSAGE_BYTES && message.kind !== 'done' && message.kind !== 'call';
    return isTooLong ? undefined : messageOf(message);
  } catch {
    return undefined;
  }
}

/** Whether JSON text has no more objects, lists and members than a valid message. */
function hasMessageStructure(json: Buffer): boolean {
  let nested = 0;
  let members = 0;
  let inString = false;
  for (let index = 0; index < json.length; index++) {
    const byte = json[index];
    if (inString) {
      if (byte === BACKSLASH) index++;
      else if (byte === QUOTE) inString = false;
    } else if (byte === QUOTE) {
      inString = true;
    } else if (byte === LEFT_BRACE || byte === LEFT_BRACKET) {
      if (++nested > MAX_NESTED) return false;
    } else if (byte === COLON && ++members > MAX_MEMBERS) {
      return false;
    }
  }
  return true;
}

/** Violation of the message format. Never leaves `parseHostMessage`. */
class ProtocolError extends Error {}

function messageOf(message: JsonObject): HostMessage {
  switch (message.kind) {
    case 'ready':
    case 'loaded':
      return { kind: message.kind };
    case 'log':
      return { kind: 'log', level: logLevel(message.level), message: text(message.message, MAX_LOG_LINE_LENGTH) };
    case 'done':
      return {
        kind: 'done',
        ...(message.response === undefined ? undefined : { response: responseOf(objectOf(message.response)) }),
        ignored: count(message.ignored),
      };
    case 'failed':
      return {
        kind: 'failed',
        fault: reportableFault(message.fault),
        message: text(message.message, MAX_FAILURE_MESSAGE_LENGTH),
      };
    case 'call':
      return { kind: 'call', ...callOf(message) };
    default:
      throw new ProtocolError();
  }
}

function responseOf(response: JsonObject): ActionResponse {
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

function callOf(call: JsonObject): HostCall {
  const { function: name } = call;
  switch (name) {
    case 'tools':
      return call.namespace === undefined ? { function: name } : { function: name, namespace: text(call.namespace) };
    case 'tool':
      return { function: name, name: text(call.name) };
    case 'copy':
      return { function: name, name: text(call.name), namespace: text(call.namespace) };
    case 'history':
      return { function: name, conversation: text(call.conversation) };
    case 'verify':
      return { function: name, raw: text(call.raw) };
    default:
      throw new ProtocolError();
  }
}

function logLevel(level: unknown): ActionLogLevel {
  if (level === 'debug' || level === 'info' || level === 'warn' || level === 'error') return level;
  throw new ProtocolError();
}

/** The faults that a host process may report; the others are detected by the service. */
function reportableFault(fault: unknown): ActionFault {
  if (fault === 'trap' || fault === 'memory' || fault === 'limit') return fault;
  throw new ProtocolError();
}

function count(value: unknown): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value;
  throw new ProtocolError();
}

function text(value: unknown, maxLength = MAX_HOST_FRAME_BYTES): string {
  if (typeof value === 'string' && value.length <= maxLength) return value;
  throw new ProtocolError();
}

function texts(value: unknown): string[] {
  if (!Array.isArray(value)) throw new ProtocolError();
  const items: readonly unknown[] = value;
  return items.map((item) => text(item));
}

type JsonObject = Readonly<Record<string, unknown>>;

function objectOf(value: unknown): JsonObject {
  if (isObject(value)) return value;
  throw new ProtocolError();
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
