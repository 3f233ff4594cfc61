import { isUtf8 } from 'node:buffer';
import { isJsonObject, type JsonValue, tryParseJson } from '@sluice/protocol/json/parse';

/** Why an answer has no result. */
export interface UnusableAnswer {
  readonly fault: 'invalid' | 'no-content' | 'refusal';
  readonly problem: string;
}

/** Returns the content of a completion, which may be empty, or why there is none. */
export function readAnswer(body: Buffer): string | UnusableAnswer {
  if (!isUtf8(body)) return { fault: 'invalid', problem: 'response is not valid UTF-8' };
  const completion = tryParseJson(body.toString());
  if (completion === undefined) return { fault: 'invalid', problem: 'response is not valid JSON' };
  const message = messageOf(completion);
  const content = message && contentOf(message.content);
  if (content !== undefined) return content.toWellFormed();
  if (typeof message?.refusal === 'string' && message.refusal !== '') {
    return { fault: 'refusal', problem: 'the model refused to respond' };
  }
  return { fault: 'no-content', problem: 'response without text in choices[0].message.content' };
}

function messageOf(completion: unknown) {
  if (!isJsonObject(completion) || !Array.isArray(completion.choices)) return undefined;
  const [choice] = completion.choices;
  return isJsonObject(choice) && isJsonObject(choice.message) ? choice.message : undefined;
}

/** A text, or the texts of a list of parts; other parts, such as thinking, are not part of the result. */
function contentOf(content: JsonValue | undefined): string | undefined {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return undefined;
  const texts = content.flatMap((part) => {
    if (typeof part === 'string') return part;
    return isJsonObject(part) && part.type === 'text' && typeof part.text === 'string' ? part.text : [];
  });
  return texts.length > 0 ? texts.join('') : undefined;
}
