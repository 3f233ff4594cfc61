import { applyEdits, type Edit, insertEdit } from '@sluice/protocol/json/edit';
import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/protocol/json/parse';
import { members, memberText } from '@sluice/protocol/json/scan';
import { declares, neededFor } from '@sluice/protocol/mcp/capabilities';
import { MISSING_CAPABILITY } from '@sluice/protocol/mcp/constants';
import type { AnswerRewriting, Rewritten } from '../call-plan.ts';
import { ModernErrors } from '../modern-errors.ts';

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
