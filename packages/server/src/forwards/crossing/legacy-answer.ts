import { applyEdits, removeEdits } from '@sluice/protocol/json/edit';
import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { members, memberText } from '@sluice/protocol/json/scan';
import { INTERNAL_ERROR } from '@sluice/protocol/mcp/constants';
import type { AnswerRewriting, Rewritten } from '../call-plan.ts';

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
