import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/protocol/json/parse';
import { applyEdits, type Edit, insertEdit, members, memberText, removeAt } from '@sluice/protocol/json/text';
import { declares, requiredCapabilities } from '@sluice/protocol/mcp/capabilities';
import { INTERNAL_ERROR, METHOD_NOT_FOUND, MISSING_CAPABILITY } from '@sluice/protocol/mcp/constants';
import { TASKS_EXTENSION } from '@sluice/protocol/mcp/methods';
import type { ResponseRewriter, RewrittenResponse } from '../relay/call-spec.ts';
import { type ResultPositions, removalEdits } from '../relay/large-message.ts';
import { errorResponse, replaceRetiredCode, requiresInput } from '../relay/response-rewrite.ts';

/** Translates the response of a modern upstream for its legacy client. */
export class LegacyResponseRewriter implements ResponseRewriter {
  readonly #failure: string;
  readonly #isMultiRound: boolean;

  /** `failure`: prefix of error messages. `isMultiRound`: the upstream may require input. */
  constructor(failure: string, isMultiRound: boolean) {
    this.#failure = failure;
    this.#isMultiRound = isMultiRound;
  }

  /** Input that is required is read. */
  needsText(value: JsonObject): boolean {
    return this.#isMultiRound && requiresInput(value);
  }

  rewrite(text: string, value: JsonObject): RewrittenResponse | undefined {
    const { result, error } = value;
    // The legacy era has no such error, and no extension: a tool that requires a task does not exist without (2025-11-25, "Tasks").
    if (isJsonObject(error) && requiresTasks(error)) {
      return errorResponse(memberText(text, 'id') ?? 'null', { ...error, code: METHOD_NOT_FOUND });
    }
    if (!isJsonObject(result)) return undefined;
    const { resultType: type = 'complete', structuredContent: structured } = result;
    if (type !== 'complete' && !(type === 'input_required' && this.#isMultiRound)) {
      return this.#error(memberText(text, 'id') ?? 'null', unknownType(type));
    }
    return isRejectedContent(structured) ? { text: withoutStructuredContent(text), value } : undefined;
  }

  rewriteLarge({ members }: ResultPositions, { result }: JsonObject, id: string): readonly Edit[] | RewrittenResponse {
    const content: JsonObject = isJsonObject(result) ? result : {};
    const { resultType: type = 'complete', structuredContent: structured } = content;
    if (!members) return this.#error(id, DUPLICATES);
    if (type !== 'complete') return this.#error(id, unknownType(type));
    return isRejectedContent(structured) ? removalEdits(members, STRUCTURED_CONTENT) : [];
  }

  #error(id: string, what: string): RewrittenResponse {
    return errorResponse(id, { code: INTERNAL_ERROR, message: `${this.#failure}: the upstream answered with ${what}` });
  }
}

/** True for the error of a modern upstream whose tool requires a client that supports tasks. */
function requiresTasks({ code, data }: JsonObject): boolean {
  if (code !== MISSING_CAPABILITY || !isJsonObject(data) || !isJsonObject(data.requiredCapabilities)) return false;
  const { extensions } = data.requiredCapabilities;
  return isJsonObject(extensions) && Object.hasOwn(extensions, TASKS_EXTENSION);
}

const STRUCTURED_CONTENT = 'structuredContent';
const DUPLICATES = 'a large result that has a member many times';
/** Longest text of an upstream in a message. */
const MAX_TYPE_CHARACTERS = 200;

function unknownType(type: unknown): string {
  return `a result of type ${JSON.stringify(type).slice(0, MAX_TYPE_CHARACTERS)}`;
}

/** Legacy clients reject a result whose structured content is not an object. */
function isRejectedContent(structured: JsonValue | undefined): boolean {
  return structured !== undefined && !isJsonObject(structured);
}

function withoutStructuredContent(text: string): string {
  return removeAt(text, ['result'], (name) => name === STRUCTURED_CONTENT);
}

const COMPLETE = '"complete"';

/** Capabilities that rejected server requests require, by their text: at most one for each kind of request. */
type RequiredCapabilities = Map<string, Record<string, JsonObject>>;

/** Translates the response of a legacy upstream for its modern client. */
export class ModernResponseRewriter implements ResponseRewriter {
  readonly #method: string;
  readonly #capabilities: JsonObject;
  readonly #newRestartState: (() => string) | undefined;
  readonly #required: RequiredCapabilities;

  /** `newRestartState` is that of {@link replaceRetiredCode}, `required` that of the requests before a retry. */
  constructor(
    method: string,
    capabilities: JsonObject,
    newRestartState?: () => string,
    required: RequiredCapabilities = new Map(),
  ) {
    this.#method = method;
    this.#capabilities = capabilities;
    this.#newRestartState = newRestartState;
    this.#required = required;
  }

  /** Returns the rewriter of the same call for a retry, which has capabilities of its own. */
  forRetry(capabilities: JsonObject): ModernResponseRewriter {
    return new ModernResponseRewriter(this.#method, capabilities, this.#newRestartState, this.#required);
  }

  onRejected(method: string, params: JsonValue | undefined): void {
    const required = requiredCapabilities(method, params);
    if (required) this.#required.set(JSON.stringify(required), required);
  }

  rewrite(text: string, value: JsonObject): RewrittenResponse | undefined {
    const { result, error } = value;
    // An upstream that fails after a server request was rejected needed the response (2026-07-28, "`_meta`").
    if (error !== undefined || (isJsonObject(result) && result.isError === true)) {
      const missing = this.#missingCapability();
      if (missing) return missingCapability(memberText(text, 'id') ?? 'null', missing);
    }
    if (error !== undefined) {
      return replaceRetiredCode(text, value, this.#method, this.#capabilities, this.#newRestartState);
    }
    return isJsonObject(result) ? { text: this.#withModernMembers(text, result), value } : undefined;
  }

  /**
   * Adds members that a modern client expects in a result and that a legacy upstream does not know. A `resultType` of the
   * upstream has another meaning and is replaced.
   */
  #withModernMembers(text: string, result: JsonObject): string {
    const added = this.#addedMembers(result);
    for (const { key, start } of members(text)) {
      if (key !== 'result') continue;
      const types = [...members(text, start)].filter((member) => member.key === 'resultType');
      const edits: Edit[] = types.map((type) => ({ start: type.start, end: type.end, text: COMPLETE }));
      return applyEdits(text, added === '' ? edits : [insertEdit(text, start, added), ...edits]);
    }
    return text;
  }

  rewriteLarge(
    { start, isEmpty, members: positions }: ResultPositions,
    { result: given }: JsonObject,
    id: string,
  ): readonly Edit[] | RewrittenResponse {
    const result = isJsonObject(given) ? given : {};
    const missing = result.isError === true ? this.#missingCapability() : undefined;
    if (missing) return missingCapability(id, missing);
    if (!positions)
      return errorResponse(id, { code: INTERNAL_ERROR, message: `the upstream answered with ${DUPLICATES}` });
    const types = positions.filter(({ key }) => key === 'resultType');
    const added = this.#addedMembers(result);
    return [
      ...(added === '' ? [] : [{ start, end: start, text: isEmpty ? added : `${added},` }]),
      ...types.map((type) => ({ start: type.start, end: type.end, text: COMPLETE })),
    ];
  }

  #missingCapability(): JsonObject | undefined {
    return this.#required.values().find((required) => !declares(this.#capabilities, required));
  }

  /** Returns the members that the result lacks, as JSON text. */
  #addedMembers(result: JsonObject): string {
    const added: string[] = [];
    const add = (key: string, json: string): void => {
      if (!Object.hasOwn(result, key)) added.push(`"${key}":${json}`);
    };
    add('resultType', COMPLETE);
    if (this.#method === 'resources/read') {
      // The content was read for one caller: it must not be cached.
      add('ttlMs', '0');
      add('cacheScope', '"private"');
    }
    return added.join(',');
  }
}

function missingCapability(id: string, requiredCapabilities: JsonObject): RewrittenResponse {
  const message = 'the call requires a client that supports server requests';
  return errorResponse(id, { code: MISSING_CAPABILITY, message, data: { requiredCapabilities } });
}
