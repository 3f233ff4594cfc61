/** The words of a command line up to the cursor, quotes and backslashes resolved; the last one is what is being typed. */
export function splitWords(line: string): string[] {
  const words: string[] = [];
  let word = '';
  let quote = '';
  let begun = false;
  for (let at = 0; at < line.length; at += 1) {
    const character = line.charAt(at);
    if (quote === '' && /\s/.test(character)) {
      if (begun) words.push(word);
      word = '';
      begun = false;
      continue;
    }
    begun = true;
    if (character === quote) quote = '';
    else if (quote === '' && (character === "'" || character === '"')) quote = character;
    else if (character === '\\' && quote !== "'") {
      at += 1;
      word += line.charAt(at);
    } else word += character;
  }
  return [...words, word];
}

/** Bash replaces only what stands behind the last `:` or `=` of a word, so suggestions go without what is before. */
export function afterWordBreak(suggestion: string, word: string): string {
  return suggestion.slice(Math.max(word.lastIndexOf(':'), word.lastIndexOf('=')) + 1);
}
