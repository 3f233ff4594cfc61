/**
 * Parses LLM output as JSON, with or without a code fence, after thinking in `<think>…</think>` if it begins with that.
 * Returns undefined if it is not JSON. The result may be any JSON value: check every member before use.
 */
export function parseJsonOutput(text: string): unknown {
  const end = text.trimStart().startsWith('<think>') ? text.indexOf('</think>') : -1;
  const answer = end === -1 ? text : text.slice(end + '</think>'.length);
  const fenced = /^\s*```[a-z]*\s*\n([\s\S]*?)\n?\s*```\s*$/i.exec(answer);
  try {
    return JSON.parse(fenced?.[1] ?? answer);
  } catch {
    return undefined;
  }
}

/** Returns a member of a JSON value; undefined if it does not exist. */
export function member(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
  return Reflect.get(value, name);
}

/** Returns untrusted text as one line of limited length. */
export function oneLine(text: string, maxLength: number): string {
  const line = text.replace(/[\p{Cc}\p{Cf}\s]+/gu, ' ').trim();
  const characters = [...line];
  return characters.length > maxLength ? `${characters.slice(0, maxLength - 1).join('')}…` : line;
}
