import { insertion } from '../../json/insertion.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../json/lossless.ts';
import { members, memberText } from '../../json/scan.ts';
import { splice } from '../../json/splice.ts';
import { answersQuestion, neededFor } from '../../mcp/askable.ts';
import { MISSING_CAPABILITY } from '../../mcp/protocol.ts';
import type { AnswerRewriting } from '../call-plan.ts';
import { ModernErrors } from '../modern-errors.ts';

/** The answer of a legacy upstream as its modern client is to have it. */
export class ModernAnswer implements AnswerRewriting {
  readonly #method: string;
  readonly #capabilities: JsonObject;
  readonly #errors: ModernErrors;
  /** What the client would have had to declare for a question that was refused. */
  #lacking: JsonObject | undefined = undefined;

  /** `visit` is that of {@link ModernErrors}. */
  constructor(method: string, capabilities: JsonObject, visit: () => string) {
    this.#method = method;
    this.#capabilities = capabilities;
    this.#errors = new ModernErrors(method, capabilities, visit);
  }

  refused(method: string, params: JsonValue | undefined): void {
    if (!answersQuestion(this.#capabilities, method, params)) this.#lacking ??= neededFor(method, params);
  }

  rewrite(text: string, value: JsonObject): { text: string; value: JsonObject } {
    const { result, error } = value;
    // An upstream that fails after a question was refused needed the answer (2026-07-28, "`_meta`").
    if (this.#lacking && (error !== undefined || (isJsonObject(result) && result.isError === true))) {
      return missingCapability(text, this.#lacking);
    }
    if (error !== undefined) return this.#errors.rewrite(text, value);
    return { text: isJsonObject(result) ? this.#withModernMembers(text, result) : text, value };
  }

  /** Adds members that a modern client expects of a result and that the upstream did not know of. */
  #withModernMembers(text: string, result: JsonObject): string {
    const added: string[] = [];
    const add = (key: string, json: string): void => {
      if (!Object.hasOwn(result, key)) added.push(`"${key}":${json}`);
    };
    add('resultType', '"complete"');
    if (this.#method === 'resources/read') {
      // What was read for one caller is nothing to keep.
      add('ttlMs', '0');
      add('cacheScope', '"private"');
    }
    if (added.length === 0) return text;
    for (const { key, start } of members(text)) {
      if (key === 'result') return splice(text, [insertion(text, start, added.join(','))]);
    }
    return text;
  }
}

function missingCapability(text: string, requiredCapabilities: JsonObject): { text: string; value: JsonObject } {
  const message = 'the call needs a client that can be asked for input';
  const error = { code: MISSING_CAPABILITY, message, data: { requiredCapabilities } };
  const id = memberText(text, 'id') ?? 'null';
  return { text: `{"jsonrpc":"2.0","id":${id},"error":${JSON.stringify(error)}}`, value: { error } };
}
