import type { ToolCallErrorCategory, ToolCallEvent, ToolCallOutcome, ToolCallTransport } from '@sluice/contract';
import { isJsonObject, type JsonValue } from '@sluice/protocol/json/parse';
import { detach, truncateBytes, truncateCharacters } from '@sluice/protocol/text';
import type { Correlation } from '../../exchange/correlation.ts';
import { type EventTask, type ExchangeFacts, NO_EVALUATIONS, type PassedEvaluation } from '../../exchange/facts.ts';
import type { StoredPrincipal } from '../../identity/principal.ts';
import { roundMs } from '../metrics/instruments.ts';
import { spanOf } from '../request-spans.ts';

/** An event as it is stored: cheap to create, since most are never read. It contains no data that must be redacted. */
export interface ToolCallRecord {
  readonly eventId: string;
  /** Milliseconds since the Unix epoch. */
  readonly at: number;
  readonly identity: ToolCallIdentity;
  readonly details: EventDetails;
  /** Id of the recorded completion that requested the call; only in the last event. */
  readonly completionId: string | undefined;
}

/** Caller and target of a tool call; part of all its events. */
export interface ToolCallIdentity {
  readonly transport: ToolCallTransport;
  readonly namespace: string;
  /** `code-execution/{engine}/{language}` for code. */
  readonly toolName: string;
  readonly toolType: string;
  /** Forward that the tool was discovered from. */
  readonly forward: string | undefined;
  readonly service: CalledService;
  readonly correlation: Correlation;
  /** Trace of the call; logged only. */
  readonly traceId: string | undefined;
  /** Id of the principal, in at most 256 characters; undefined if it is anonymous. */
  readonly user: string | undefined;
  /** Evaluations that the call has passed. */
  readonly evaluations: readonly PassedEvaluation[];
}

/** The service or upstream that executes a call, as far as it is known. */
export interface CalledService {
  /** Name of the service entry, if there is one. */
  readonly id?: string | undefined;
  /** `host:port` of the service, or the origin of the upstream. */
  readonly address?: string | undefined;
  /** Header `x-service-request-id` sent to the service; logged only. */
  readonly requestId?: string | undefined;
}

/** Outcome of a call with a FAILED event. */
export type FailureOutcome = Exclude<ToolCallOutcome, 'completed'>;

/** Error type of a tool result with `isError` (OpenTelemetry's conventions for MCP, `error.type`). */
export const TOOL_ERROR = 'tool_error';
/** Error types of a call that its client canceled, and of one without a result in time. */
export const CANCELED = 'cancelled';
export const TIMEOUT = 'timeout';

/** Classifies a failed call by its category and OpenTelemetry's `error.type`. */
export function outcomeOfFailure(category: ToolCallErrorCategory, errorType: string): FailureOutcome {
  if (category === 'POLICY_BLOCKED') return 'blocked';
  if (errorType === TOOL_ERROR) return 'tool_error';
  if (errorType === CANCELED) return 'canceled';
  return errorType === TIMEOUT ? 'timeout' : 'failed';
}

/** How a call ended. */
export function outcomeOf(details: LastEventDetails): ToolCallOutcome {
  if (details.type === 'FAILED') return details.outcome;
  return details.isError ? 'tool_error' : 'completed';
}

/** The part of the last event of a call that depends on its type. */
export type LastEventDetails = Exclude<EventDetails, { readonly type: 'STARTED' }>;

/** The part of an event that depends on its type. */
export type EventDetails =
  | { readonly type: 'STARTED'; readonly summary: RequestSummary }
  | {
      readonly type: 'COMPLETED';
      readonly durationMs: number;
      readonly isError: boolean;
      readonly content: EventContent;
      readonly task?: EventTask | undefined;
    }
  | {
      readonly type: 'FAILED';
      readonly durationMs: number;
      readonly outcome: FailureOutcome;
      readonly category: ToolCallErrorCategory;
      readonly message: string;
      /** The evaluator that rejected the call; its reason is the message. */
      readonly evaluator?: string | undefined;
      readonly task?: EventTask | undefined;
    };

/** Returns the event in the form of the management API. Members without a value are omitted. */
export function eventOf({ eventId, at, identity, details }: ToolCallRecord): ToolCallEvent {
  const common = { timestamp: new Date(at).toISOString(), ...identityMembers(identity) };
  switch (details.type) {
    case 'STARTED': {
      const { argumentNames, argumentCount, headerNames, code } = details.summary;
      return {
        eventId,
        eventType: 'STARTED',
        ...common,
        ...(argumentNames && { argumentNames: [...argumentNames] }),
        argumentCount,
        headers: Object.fromEntries(headerNames.map((name) => [name, '[REDACTED]' as const])),
        ...(code && { body: '[CODE]' as const }),
      };
    }
    case 'COMPLETED': {
      const { isError, content, durationMs } = details;
      return {
        eventId,
        eventType: 'COMPLETED',
        ...common,
        outcome: isError ? 'tool_error' : 'completed',
        isError,
        content: [...content.texts],
        ...(content.truncated && { contentTruncated: true as const }),
        duration: roundMs(durationMs),
        ...taskMember(details.task),
      };
    }
    case 'FAILED': {
      const { outcome, category, message, durationMs, evaluator } = details;
      return {
        eventId,
        eventType: 'FAILED',
        ...common,
        duration: roundMs(durationMs),
        outcome,
        errorCategory: category,
        errorMessage: message,
        ...(evaluator !== undefined && { evaluator, reason: message }),
        ...taskMember(details.task),
      };
    }
  }
}

function taskMember(task: EventTask | undefined) {
  if (!task) return {};
  const { id, end } = task;
  const states = task.states.map(({ status, at }) => ({ status, timestamp: new Date(at).toISOString() }));
  return { task: { id, ...(end !== undefined && { end }), states } };
}

function identityMembers(identity: ToolCallIdentity) {
  const { transport, namespace, toolName, toolType, service, forward, user, evaluations } = identity;
  const { conversationId, requestId, via } = identity.correlation;
  return {
    transport,
    namespace,
    toolName,
    toolType,
    ...(forward !== undefined && { forward }),
    serviceAddress: service.address ?? '',
    ...(service.id !== undefined && { serviceId: service.id }),
    ...(conversationId !== undefined && { conversationId }),
    ...(requestId !== undefined && { requestId }),
    ...(via !== undefined && { via }),
    ...(user !== undefined && { user }),
    ...(evaluations.length > 0 && {
      evaluations: evaluations.map(({ evaluator, verdict, durationMs }) => ({
        evaluator,
        verdict,
        duration: roundMs(durationMs),
      })),
    }),
  };
}

/** Caller of a tool. */
export interface ToolCaller {
  readonly namespace: string | undefined;
  readonly correlation: Correlation;
  readonly principal: Pick<StoredPrincipal, 'id'>;
  /** Undefined for a call that belongs to no request. */
  readonly facts: ExchangeFacts | undefined;
}

const MAX_USER_CHARACTERS = 256;

/** What executes a call. */
export interface ToolTarget {
  readonly transport: ToolCallTransport;
  /** Name in events if it differs from the tool's name. */
  readonly toolName?: string | undefined;
  readonly service?: CalledService | undefined;
}

/** Returns the identity of a call. */
export function toolCallIdentity(
  { namespace = '', correlation, principal, facts }: ToolCaller,
  tool: {
    readonly name: string;
    readonly members: { readonly toolType?: JsonValue };
    readonly discovered?: { readonly forward: string } | undefined;
  },
  { transport, toolName = tool.name, service = {} }: ToolTarget,
): ToolCallIdentity {
  return {
    transport,
    namespace,
    toolName,
    toolType: String(tool.members.toolType),
    forward: tool.discovered?.forward,
    service,
    correlation,
    traceId: spanOf(facts)?.context.traceId,
    user: userOf(principal),
    evaluations: facts?.evaluations ?? NO_EVALUATIONS,
  };
}

/** Returns the user of an event; undefined for an anonymous caller. */
export function userOf({ id }: Pick<StoredPrincipal, 'id'>): string | undefined {
  return truncateCharacters(id, MAX_USER_CHARACTERS) || undefined;
}

/** Returns the tool name of code execution in events. */
export function codeToolName(engine: string, language: string): string {
  return `code-execution/${engine}/${language}`;
}

/** The request of a STARTED event: names only, no values. */
export interface RequestSummary {
  /** Undefined for code execution, whose argument names are not disclosed. */
  readonly argumentNames: readonly string[] | undefined;
  readonly argumentCount: number;
  readonly headerNames: readonly string[];
  /** True for code execution. */
  readonly code: boolean;
}

/** Prefix of arguments with credentials: their names are not disclosed either. */
export const AUTH_PREFIX = 'service_auth_';

/** A client may send a million names, and a thousand events are stored. */
const MAX_NAMES = 100;
const MAX_NAME_LENGTH = 256;

/** Returns the summary of a tool request with these names of arguments and headers. */
export function toolSummary(args: readonly string[], headers: readonly string[]): RequestSummary {
  const names = args.length > 1 ? [...new Set(args)] : args;
  return {
    argumentNames: boundedNames(names, AUTH_PREFIX),
    argumentCount: names.length,
    headerNames: headers.length === 0 ? headers : boundedNames(headers),
    code: false,
  };
}

/** Returns the summary of code execution. */
export function codeSummary(argumentCount: number): RequestSummary {
  return { argumentNames: undefined, argumentCount, headerNames: [], code: true };
}

function boundedNames(names: readonly string[], excludedPrefix?: string): string[] {
  const bounded: string[] = [];
  for (const name of names) {
    if (bounded.length === MAX_NAMES) break;
    if (excludedPrefix !== undefined && name.startsWith(excludedPrefix)) continue;
    bounded.push(name.length > MAX_NAME_LENGTH ? detach(name.slice(0, MAX_NAME_LENGTH)) : name.toWellFormed());
  }
  return bounded;
}

/** Limit of all texts of one event, in UTF-8 bytes. */
const MAX_CONTENT_BYTES = 16 * 1024;
/** Length in code units of a text that cannot exceed the limit. */
const SHORT_TEXT = MAX_CONTENT_BYTES / 3;
/** Limit of the number of texts: each text takes memory beyond its bytes. */
const MAX_TEXTS = 512;

/** Texts of a COMPLETED event: at most 16 KiB and 512 texts. */
export interface EventContent {
  readonly texts: readonly string[];
  readonly truncated: boolean;
}

/** Content of an event without texts. */
export const NO_CONTENT: EventContent = { texts: [], truncated: false };

/** Returns the content of a capability service's reply. */
export function contentOfTexts(texts: Iterable<string>): EventContent {
  const stored: string[] = [];
  let remaining = MAX_CONTENT_BYTES;
  for (const text of texts) {
    if (stored.length === MAX_TEXTS) return { texts: stored, truncated: true };
    // A text has at least as many bytes as code units: a long one does not have to be measured.
    const bytes = text.length > remaining ? text.length : Buffer.byteLength(text);
    if (bytes > remaining) {
      if (remaining > 0) stored.push(truncateBytes(text, remaining));
      return { texts: stored, truncated: true };
    }
    stored.push(text);
    remaining -= bytes;
  }
  return { texts: stored, truncated: false };
}

/** Returns the content of an MCP result, which may not have the form that the protocol requires. */
export function contentOfResult(result: JsonValue | undefined): EventContent {
  if (!isJsonObject(result) || !Array.isArray(result.content)) return NO_CONTENT;
  const [first] = result.content;
  if (result.content.length === 1 && isJsonObject(first) && first.type === 'text' && typeof first.text === 'string') {
    // Most results have one short text.
    if (first.text.length <= SHORT_TEXT) return { texts: [first.text], truncated: false };
  }
  const texts: string[] = [];
  for (const block of result.content) {
    if (isJsonObject(block) && block.type === 'text' && typeof block.text === 'string') texts.push(block.text);
  }
  return contentOfTexts(texts);
}

/** Returns whether an MCP result reports a failure of the tool. */
export function isErrorResult(result: JsonValue | undefined): boolean {
  return isJsonObject(result) && result.isError === true;
}
