/**
 * What an LLM answered, read as JSON; undefined when it is none. Models like to put a code fence around it, which is taken
 * away. What comes back may be anything that JSON can be: look at every member before you use it.
 */
export function jsonAnswer(text: string): unknown {
  const fenced = /^\s*```[a-z]*\s*\n([\s\S]*?)\n?\s*```\s*$/i.exec(text);
  try {
    return JSON.parse(fenced?.[1] ?? text);
  } catch {
    return undefined;
  }
}

/** A member of what {@link jsonAnswer} returned; undefined where there is none. */
export function member(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
  return Reflect.get(value, name);
}

/** Text that others wrote, as one line of at most so many characters. */
export function oneLine(text: string, longest: number): string {
  const line = text.replace(/[\p{Cc}\p{Cf}\s]+/gu, ' ').trim();
  const characters = [...line];
  return characters.length > longest ? `${characters.slice(0, longest - 1).join('')}…` : line;
}
