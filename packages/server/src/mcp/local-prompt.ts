import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/protocol/json/parse';
import type { Entry } from '../registry/entries.ts';

/**
 * The result of `prompts/get` for a hand-made prompt, or the required argument that is missing (decisions 2.7).
 * `{key}` is replaced in one pass, so that what an argument brings in is never expanded again.
 */
export function expandPrompt(
  prompt: Entry,
  given: JsonValue | undefined,
): { result: JsonObject } | { missing: string } {
  const values = isJsonObject(given) ? given : {};
  for (const argument of asList(prompt.definition.arguments)) {
    if (!isJsonObject(argument) || argument.required !== true || typeof argument.name !== 'string') continue;
    if (!Object.hasOwn(values, argument.name)) return { missing: argument.name };
  }
  const messages = asList(prompt.members.messages).filter(isJsonObject);
  const description = prompt.definition.description;
  return {
    result: {
      ...(typeof description === 'string' && description !== '' && { description }),
      messages: messages.map((message) => ({
        role: message.role === 'assistant' ? 'assistant' : 'user',
        content: expandContent(message.content ?? '', values),
      })),
    },
  };
}

function expandContent(content: JsonValue, values: JsonObject): JsonValue {
  if (typeof content !== 'string') return content;
  const text = content.replace(/\{([^{}]+)\}/g, (placeholder, key: string) => {
    if (!Object.hasOwn(values, key)) return placeholder;
    const value = values[key];
    return typeof value === 'string' ? value : JSON.stringify(value);
  });
  return { type: 'text', text };
}

function asList(value: JsonValue | undefined): JsonValue[] {
  return Array.isArray(value) ? value : [];
}
