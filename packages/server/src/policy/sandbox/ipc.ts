import { z } from 'zod';
import { actionResponse, type ModuleInfo } from './action.ts';
import { HEADER_BYTES } from './host/parent-pipe.ts';

/**
 * Message from the service to a host process. `load` is followed by a frame with the glue and one per module, `run` by a
 * frame with the evaluation context as JSON, `result` by a frame with the JSON result of the last host function call.
 */
export type HostCommand =
  | { readonly kind: 'load'; readonly action: string; readonly modules: readonly ModuleInfo[] }
  | { readonly kind: 'run'; readonly action: string }
  | { readonly kind: 'result' };

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

const text = z.string();
const call = z.literal('call');

const hostMessage = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal(['ready', 'loaded']) }),
  z.discriminatedUnion('function', [
    z.object({ kind: call, function: z.literal('tools'), namespace: text.optional() }),
    z.object({ kind: call, function: z.literal('tool'), name: text }),
    z.object({ kind: call, function: z.literal('copy'), name: text, namespace: text }),
    z.object({ kind: call, function: z.literal('history'), conversation: text }),
    z.object({ kind: call, function: z.literal('verify'), raw: text }),
  ]),
  z.object({
    kind: z.literal('log'),
    level: z.enum(['debug', 'info', 'warn', 'error']),
    message: text.max(MAX_LOG_LINE_LENGTH),
  }),
  z.object({
    kind: z.literal('done'),
    response: actionResponse.optional(),
    ignored: z.int().min(0),
  }),
  z.object({
    kind: z.literal('failed'),
    // The service itself detects the other faults.
    fault: z.enum(['trap', 'memory', 'limit']),
    message: text.max(MAX_FAILURE_MESSAGE_LENGTH),
  }),
]);

/** Message from a host process to the service. */
export type HostMessage = z.output<typeof hostMessage>;

/** Call of a host function; the host process blocks until it has the result. */
export type HostCall = HostMessage & { readonly kind: 'call' };

/**
 * Parses a frame from a host process; undefined if it is not a valid message. A compromised host must not control the
 * cost of rejecting its messages, so JSON with more structure than any valid message is not parsed at all.
 */
export function parseHostMessage(bytes: Buffer): HostMessage | undefined {
  if (bytes.length > MAX_HOST_FRAME_BYTES || !hasMessageStructure(bytes)) return undefined;
  try {
    const message = hostMessage.safeParse(JSON.parse(bytes.toString())).data;
    const isTooLong = bytes.length > MAX_SHORT_MESSAGE_BYTES && message?.kind !== 'done' && message?.kind !== 'call';
    return isTooLong ? undefined : message;
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
