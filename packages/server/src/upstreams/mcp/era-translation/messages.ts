import { applyEdits, type Edit, insertEdit, removeEdits } from '@sluice/protocol/json/edit';
import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/protocol/json/parse';
import { members, memberText } from '@sluice/protocol/json/scan';
import { declares, neededFor } from '@sluice/protocol/mcp/capabilities';
import {
  INTERNAL_ERROR,
  LATEST_MODERN,
  META_CLIENT_CAPABILITIES,
  META_CLIENT_INFO,
  META_LOG_LEVEL,
  META_PROTOCOL_VERSION,
  MISSING_CAPABILITY,
} from '@sluice/protocol/mcp/constants';
import type { RequestMessage } from '@sluice/protocol/mcp/message';
import { TRACE_MEMBERS, type TraceContext, traceMembers } from '../../../telemetry/tracing/trace-context.ts';
import type { AnswerRewriting, Rewritten } from '../relay/relay.ts';
import { ModernErrors, metaEdits, replacing } from '../relay/request-rewrite.ts';

/** What of a modern request's `_meta` makes it modern. */
export const ENVELOPE: readonly string[] = [
  META_PROTOCOL_VERSION,
  META_CLIENT_INFO,
  META_CLIENT_CAPABILITIES,
  META_LOG_LEVEL,
];
/** What only a retry has among its params. */
export const RETRY: readonly string[] = ['inputResponses', 'requestState'];

/** What a legacy client has said of itself once, and a modern upstream wants to be told with every request. */
export interface ClientFacts {
  readonly clientInfo: JsonObject;
  /** What the upstream may ask of it. */
  readonly capabilities: JsonObject;
  /** The least level of log messages that it wants; undefined when it can be sent none. */
  readonly logLevel: string | undefined;
  /** Where the call stands in a trace; the client's own word on it stays where this is undefined. */
  readonly trace: TraceContext | undefined;
}

/**
 * Puts the metadata that every modern request carries into a legacy one's `_meta`. `more` are further members of its
 * params, as JSON text: those of a retry.
 */
export function modernEnvelope(
  { text, params, paramsRange }: RequestMessage,
  { clientInfo, capabilities, logLevel, trace }: ClientFacts,
  more: readonly string[] = [],
): Edit[] {
  const own = JSON.stringify({
    [META_PROTOCOL_VERSION]: LATEST_MODERN,
    [META_CLIENT_INFO]: clientInfo,
    [META_CLIENT_CAPABILITIES]: capabilities,
    [META_LOG_LEVEL]: logLevel,
  }).slice(1, -1);
  const envelope = trace ? `${own},${traceMembers(trace)}` : own;
  if (!paramsRange) {
    const end = text.lastIndexOf('}');
    return [{ start: end, end, text: `,"params":{${[`"_meta":{${envelope}}`, ...more].join(',')}}` }];
  }
  const { _meta: meta } = params;
  if (!isJsonObject(meta)) {
    return replacing(text, paramsRange.start, params, [`"_meta":{${envelope}}`, ...more].join(','), [
      ...RETRY,
      '_meta',
    ]);
  }
  const edits = replacing(text, paramsRange.start, params, more.join(','), RETRY);
  for (const { key, start } of members(text, paramsRange.start)) {
    if (key !== '_meta') continue;
    edits.push(...replacing(text, start, meta, envelope, trace ? [...ENVELOPE, ...TRACE_MEMBERS] : ENVELOPE));
  }
  return edits;
}

/** Takes out of params what belongs to a retry, for an upstream that has not asked for it; all else stays as it is. */
export function withoutRetry({ text, paramsRange }: RequestMessage): Edit[] {
  return paramsRange ? removeEdits(text, paramsRange.start, (key) => RETRY.includes(key)) : [];
}

/** The same, and takes the envelope out of `_meta`, at which a legacy server would take offence. */
export function withoutEnvelope(message: RequestMessage, trace?: TraceContext): Edit[] {
  const { text, params, paramsRange } = message;
  if (!trace) return paramsRange ? [...withoutRetry(message), ...metaEdits(message, '', ENVELOPE)] : [];
  const inserted = traceMembers(trace);
  // Both change the params themselves: two edits of theirs might meet.
  if (paramsRange && !isJsonObject(params._meta)) {
    return replacing(text, paramsRange.start, params, `"_meta":{${inserted}}`, [...RETRY, '_meta']);
  }
  return [...withoutRetry(message), ...metaEdits(message, inserted, [...ENVELOPE, ...TRACE_MEMBERS])];
}

/** The answer of a modern upstream as its legacy client is to have it. */
export class LegacyAnswer implements AnswerRewriting {
  readonly #failure: string;
  readonly #inRounds: boolean;

  /** `failure`: what a failed call is called. `inRounds`: whether the upstream may answer that it needs input. */
  constructor(failure: string, inRounds: boolean) {
    this.#failure = failure;
    this.#inRounds = inRounds;
  }

  refused(): void {}

  rewrite(text: string, value: JsonObject): Rewritten | undefined {
    const { result } = value;
    if (!isJsonObject(result)) return undefined;
    const { resultType: type = 'complete', structuredContent: structured } = result;
    if (type !== 'complete' && !(type === 'input_required' && this.#inRounds)) return this.#unknown(text, type);
    // Legacy clients refuse a result whose structured content is no object.
    const refused = structured !== undefined && !isJsonObject(structured);
    return refused ? { text: withoutStructuredContent(text), value } : undefined;
  }

  #unknown(text: string, type: unknown): Rewritten {
    const message = `${this.#failure}: the upstream answered with a result of type ${JSON.stringify(type)}`;
    const error = { code: INTERNAL_ERROR, message };
    const id = memberText(text, 'id') ?? 'null';
    return { text: `{"jsonrpc":"2.0","id":${id},"error":${JSON.stringify(error)}}`, value: { error } };
  }
}

function withoutStructuredContent(text: string): string {
  const dropped = (name: string): boolean => name === 'structuredContent';
  for (const { key, start } of members(text)) {
    if (key === 'result') return applyEdits(text, removeEdits(text, start, dropped));
  }
  return text;
}

const COMPLETE = '"complete"';

type Needed = Map<string, Record<string, JsonObject>>;

/** The answer of a legacy upstream as its modern client is to have it. */
export class ModernAnswer implements AnswerRewriting {
  readonly #method: string;
  readonly #capabilities: JsonObject;
  readonly #visit: (() => string) | undefined;
  readonly #errors: ModernErrors;
  /** What the questions that were refused ask of a client, by its text: no more than there are kinds of questions. */
  readonly #needed: Needed;

  /** `visit` is that of {@link ModernErrors}, `needed` what the requests before this one were refused. */
  constructor(method: string, capabilities: JsonObject, visit?: () => string, needed: Needed = new Map()) {
    this.#method = method;
    this.#capabilities = capabilities;
    this.#visit = visit;
    this.#errors = new ModernErrors(method, capabilities, visit);
    this.#needed = needed;
  }

  /** The same call's answer for a retry, which has capabilities of its own. */
  toRetry(capabilities: JsonObject): ModernAnswer {
    return new ModernAnswer(this.#method, capabilities, this.#visit, this.#needed);
  }

  refused(method: string, params: JsonValue | undefined): void {
    const needed = neededFor(method, params);
    if (needed) this.#needed.set(JSON.stringify(needed), needed);
  }

  rewrite(text: string, value: JsonObject): Rewritten | undefined {
    const { result, error } = value;
    // An upstream that fails after a question was refused needed the answer (2026-07-28, "`_meta`").
    if (error !== undefined || (isJsonObject(result) && result.isError === true)) {
      const lacking = this.#needed.values().find((needed) => !declares(this.#capabilities, needed));
      if (lacking) return missingCapability(text, lacking);
    }
    if (error !== undefined) return this.#errors.rewrite(text, value);
    return isJsonObject(result) ? { text: this.#withModernMembers(text, result), value } : undefined;
  }

  /**
   * Adds members that a modern client expects of a result and that the upstream did not know of. One that has a type of its
   * own means something else by it: it is not to be taken for a question.
   */
  #withModernMembers(text: string, result: JsonObject): string {
    const added: string[] = [];
    const add = (key: string, json: string): void => {
      if (!Object.hasOwn(result, key)) added.push(`"${key}":${json}`);
    };
    add('resultType', COMPLETE);
    if (this.#method === 'resources/read') {
      // What was read for one caller is nothing to keep.
      add('ttlMs', '0');
      add('cacheScope', '"private"');
    }
    for (const { key, start } of members(text)) {
      if (key !== 'result') continue;
      const types = [...members(text, start)].filter((member) => member.key === 'resultType');
      const edits: Edit[] = types.map((type) => ({ start: type.start, end: type.end, text: COMPLETE }));
      return applyEdits(text, added.length > 0 ? [insertEdit(text, start, added.join(',')), ...edits] : edits);
    }
    return text;
  }
}

function missingCapability(text: string, requiredCapabilities: JsonObject): Rewritten {
  const message = 'the call needs a client that can be asked for input';
  const error = { code: MISSING_CAPABILITY, message, data: { requiredCapabilities } };
  const id = memberText(text, 'id') ?? 'null';
  return { text: `{"jsonrpc":"2.0","id":${id},"error":${JSON.stringify(error)}}`, value: { error } };
}
