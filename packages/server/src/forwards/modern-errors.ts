import { isJsonObject, type JsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import { withoutRetiredCode } from '@sluice/protocol/mcp/era';
import type { AnswerRewriting, Rewritten } from './call-plan.ts';

/** Keeps error codes from modern clients that their era has retired, whichever era the upstream is of (mcp 1). */
export class ModernErrors implements AnswerRewriting {
  readonly #method: string;
  readonly #capabilities: JsonObject;
  readonly #visit: (() => string) | undefined;

  /** `visit`: makes the `requestState` of a client that has to visit an address and then to call anew, where there is one. */
  constructor(method: string, capabilities: JsonObject, visit?: () => string) {
    this.#method = method;
    this.#capabilities = capabilities;
    this.#visit = visit;
  }

  refused(): void {}

  rewrite(text: string, value: JsonObject): Rewritten | undefined {
    if (!isJsonObject(value.error)) return undefined;
    const changed = withoutRetiredCode(text, value.error, this.#method, this.#capabilities, this.#visit);
    const parsed = changed === undefined ? undefined : tryParseJson(changed);
    return changed !== undefined && isJsonObject(parsed) ? { text: changed, value: parsed } : undefined;
  }
}
