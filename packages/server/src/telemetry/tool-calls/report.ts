import { randomUUID } from 'node:crypto';
import type { ToolCallErrorCategory, ToolCallTransport } from '@sluice/contract';
import { isJsonObject, type JsonValue } from '@sluice/protocol/json/parse';
import type { Entry } from '../../registry/entries.ts';
import type { Correlation } from '../correlation.ts';
import type { RequestObservation } from '../request-telemetry.ts';
import type { EventDetails } from './events.ts';

/** Where a report's events go, and the clock that measures between them. */
export interface Recorder {
  /** Milliseconds of a clock that only goes forwards. */
  readonly now: () => number;
  readonly record: (eventId: string, identity: ToolCallIdentity, details: EventDetails) => void;
}

/**
 * What is told of one tool call. One that begins has a STARTED event and one that ends it, whatever is said of its end and
 * how often: what was said first. One that fails before it begins has that FAILED event alone (specification, "States and
 * transitions"; decisions 6).
 */
export class ToolCallReporter {
  readonly eventId: string = randomUUID();
  readonly #recorder: Recorder;
  readonly #identity: ToolCallIdentity;
  #startedAt: number | undefined = undefined;
  #over = false;

  constructor(identity: ToolCallIdentity, recorder: Recorder) {
    this.#identity = identity;
    this.#recorder = recorder;
  }

  /** What carries it out is known, and its request is made. Once it has begun, this says nothing more. */
  begin(summary: RequestSummary): void {
    if (this.#over || this.#startedAt !== undefined) return;
    this.#startedAt = this.#recorder.now();
    this.#tell({ type: 'STARTED', summary });
  }

  /** A reply has come; only of a call that has begun. `isError`: the tool says itself that it failed. */
  completed(isError: boolean, content: EventContent): void {
    if (this.#over || this.#startedAt === undefined) return;
    this.#over = true;
    this.#tell({ type: 'COMPLETED', durationMs: this.#recorder.now() - this.#startedAt, isError, content });
  }

  /** No reply will come, or none that can be used. The message is told as it is, but not more than 1000 characters. */
  failed(category: ToolCallErrorCategory, message: string): void {
    if (this.#over) return;
    this.#over = true;
    const durationMs = this.#startedAt === undefined ? 0 : this.#recorder.now() - this.#startedAt;
    this.#tell({ type: 'FAILED', durationMs, category, message: cut(message) });
  }

  #tell(details: EventDetails): void {
    this.#recorder.record(this.eventId, this.#identity, details);
  }
}

const MOST_CHARACTERS = 1000;

/** At most 1000 characters (decisions 6, 8). What is cut off is not kept alive. */
function cut(message: string): string {
  if (message.length <= MOST_CHARACTERS) return message;
  // A character takes two code units at most.
  return [...message.slice(0, 2 * MOST_CHARACTERS)].slice(0, MOST_CHARACTERS).join('');
}

/** Whose call it is, and what carries it out: said by all events of the call (decisions 6). */
export interface ToolCallIdentity {
  readonly transport: ToolCallTransport;
  readonly namespace: string;
  /** Of code: `code-execution/{engine}/{language}`. */
  readonly toolName: string;
  readonly toolType: string;
  /** The name of the service entry, where there is one. */
  readonly serviceId: string | undefined;
  /** `host:port` of the service, or the upstream's origin; empty when nothing was found to carry the call out. */
  readonly serviceAddress: string;
  readonly conversationId: string | undefined;
  /** The call's own header `x-request-id`. */
  readonly requestId: string | undefined;
  /** What the service is sent as `x-service-request-id`; for the log alone. */
  readonly serviceRequestId: string | undefined;
  /** The trace that the call is part of; for the log alone. */
  readonly traceId: string | undefined;
}

/** What carries a call out, as far as it is known. */
export interface CarriedOutBy {
  readonly transport: ToolCallTransport;
  /** Where events call the tool something else. */
  readonly toolName?: string | undefined;
  readonly serviceId?: string | undefined;
  readonly serviceAddress?: string | undefined;
  readonly serviceRequestId?: string | undefined;
}

/** Who makes a call, as far as events say it. */
export interface IdentifiedCaller {
  readonly namespace: { readonly name: string } | undefined;
  readonly correlation: Correlation;
  readonly observation: RequestObservation | undefined;
}

/** What events say of a call of this tool. */
export function toolCallIdentity(
  caller: IdentifiedCaller,
  tool: Pick<Entry, 'name' | 'members'>,
  { transport, toolName = tool.name, serviceId, serviceAddress = '', serviceRequestId }: CarriedOutBy,
): ToolCallIdentity {
  const { conversationId, requestId } = caller.correlation;
  return {
    transport,
    namespace: caller.namespace?.name ?? '',
    toolName,
    toolType: String(tool.members.toolType),
    serviceId,
    serviceAddress,
    conversationId,
    requestId,
    serviceRequestId,
    traceId: caller.observation?.span?.context.traceId,
  };
}

/** The name that events give to code that is executed (decisions 6). */
export function codeToolName(engine: string, language: string): string {
  return `code-execution/${engine}/${language}`;
}

/** What a STARTED event says of the request: names alone, never a value (specification, "Events", redaction; decisions 6). */
export interface RequestSummary {
  /** Undefined where code is executed: its arguments have no names that may be told. */
  readonly argumentNames: readonly string[] | undefined;
  readonly argumentCount: number;
  readonly headerNames: readonly string[];
  /** Code is executed. */
  readonly code: boolean;
}

/** Arguments that carry credentials: not even their names are told. */
export const AUTH_PREFIX = 'service_auth_';

/** A client may send a million names, and a thousand events are kept. */
const MOST_NAMES = 100;
const LONGEST_NAME = 256;

/** What is told of a tool's request. Of `args` the names count, and of `headers` all that is given are names. */
export function toolSummary(args: object, headers: readonly string[]): RequestSummary {
  const all = Object.keys(args);
  const argumentNames = boundedNames(all, (name) => !name.startsWith(AUTH_PREFIX));
  return { argumentNames, argumentCount: all.length, headerNames: boundedNames(headers, () => true), code: false };
}

/** What is told of code that is to be executed: how many arguments it gets. */
export function codeSummary(argumentCount: number): RequestSummary {
  return { argumentNames: undefined, argumentCount, headerNames: [], code: true };
}

function boundedNames(names: readonly string[], told: (name: string) => boolean): string[] {
  const bounded: string[] = [];
  for (const name of names) {
    if (bounded.length === MOST_NAMES) break;
    if (told(name))
      bounded.push(name.length > LONGEST_NAME ? copied(name.slice(0, LONGEST_NAME)) : name.toWellFormed());
  }
  return bounded;
}

/** A part of a text keeps all of it alive. */
function copied(part: string): string {
  return Buffer.from(part).toString();
}

/** All texts of one event, in bytes of UTF-8 (decisions 6, 8). */
const MOST_BYTES = 16 * 1024;
/** Of how many texts they are at most: a short one takes more room than its bytes, and one without a character takes room. */
const MOST_TEXTS = 512;

/** The texts that a COMPLETED event tells, together at most 16 KiB, and 512 of them. */
export interface EventContent {
  readonly texts: readonly string[];
  /** There was more. */
  readonly truncated: boolean;
}

const NOTHING: EventContent = { texts: [], truncated: false };

/** The texts of a capability service's reply. */
export function contentOfTexts(texts: Iterable<string>): EventContent {
  const kept: string[] = [];
  let left = MOST_BYTES;
  for (const text of texts) {
    if (kept.length === MOST_TEXTS) return { texts: kept, truncated: true };
    // A text has at least as many bytes as characters, so that a long one need not be measured.
    const bytes = text.length > left ? text.length : Buffer.byteLength(text);
    if (bytes > left) {
      if (left > 0) kept.push(cutAtBytes(text, left));
      return { texts: kept, truncated: true };
    }
    kept.push(text);
    left -= bytes;
  }
  return { texts: kept, truncated: false };
}

/** The texts of an MCP result, which is not trusted to have the form that it should. */
export function contentOfResult(result: JsonValue | undefined): EventContent {
  if (!isJsonObject(result) || !Array.isArray(result.content)) return NOTHING;
  return contentOfTexts(textBlocks(result.content));
}

/** Whether an MCP result says that the tool failed. */
export function isErrorResult(result: JsonValue | undefined): boolean {
  return isJsonObject(result) && result.isError === true;
}

function* textBlocks(blocks: readonly JsonValue[]): Generator<string> {
  for (const block of blocks) {
    if (isJsonObject(block) && block.type === 'text' && typeof block.text === 'string') yield block.text;
  }
}

/** The first bytes of a text that has more of them, without half a character at the end; a copy, which keeps no more alive. */
function cutAtBytes(text: string, most: number): string {
  const last = text.charCodeAt(most - 1);
  const bytes = Buffer.from(text.slice(0, last >= 0xd800 && last <= 0xdbff ? most - 1 : most));
  let end = Math.min(most, bytes.length);
  while (end > 0 && isContinuation(bytes[end])) end--;
  return bytes.toString('utf8', 0, end);
}

function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xc0) === 0x80;
}
