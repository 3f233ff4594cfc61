/** Element of a pattern: text, or any text. */
export type PatternElement = 'Wildcard' | { readonly Literal: string };

/**
 * Returns a function that matches texts against a pattern. Its time is at most the product of both lengths: each literal part is
 * searched once, from the left, which finds a match if there is one, since wildcards match anything.
 */
export function compilePattern(pattern: readonly PatternElement[]): (text: string) => boolean {
  const parts = [''];
  for (const element of pattern) {
    if (element === 'Wildcard') parts.push('');
    else parts[parts.length - 1] += element.Literal;
  }
  const [first = '', ...others] = parts;
  const last = others.pop();
  if (last === undefined) return (text) => text === first;
  return (text) => {
    const end = text.length - last.length;
    if (end < first.length || !text.startsWith(first) || !text.endsWith(last)) return false;
    let at = first.length;
    for (const part of others) {
      const found = text.indexOf(part, at);
      if (found === -1 || found + part.length > end) return false;
      at = found + part.length;
    }
    return true;
  };
}
