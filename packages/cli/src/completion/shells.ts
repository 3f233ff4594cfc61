// Each script asks `sluice complete <shell> -- <words...>`, the last word being the one at the cursor, and gets a suggestion
// per line, a description behind a tab. No suggestions: the shell completes files. Suggestions are data that upstreams have
// named, so no script may hand them to `eval`, or to `compgen -W`, which expands them.

/** Bash gives the line, because it takes words apart at `:` and `=`; and wants suggestions quoted. */
const BASH = `_sluice() {
  local line
  COMPREPLY=()
  while IFS= read -r line; do
    printf -v line %q "$line"
    COMPREPLY+=("$line")
  done < <(sluice complete bash -- "\${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
}
complete -o default -F _sluice sluice
`;

const ZSH = `#compdef sluice
_sluice() {
  local line tab=$'\\t'
  local -a values shown
  while IFS= read -r line; do
    values+=("\${line%%$tab*}")
    shown+=("\${line/$tab/  -- }")
  done < <(sluice complete zsh -- "\${(@Q)words[2,CURRENT]}" 2>/dev/null)
  if (( \${#values} )); then
    compadd -l -d shown -a values
  else
    _files
  fi
}
if [[ "\${funcstack[1]}" = _sluice ]]; then _sluice; else compdef _sluice sluice; fi
`;

const FISH = `function __sluice_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l found (sluice complete fish -- $words[2..-1] 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c sluice -f -a '(__sluice_complete)'
`;

/** What a shell reads to complete `sluice`. */
export const COMPLETION_SCRIPTS = { bash: BASH, zsh: ZSH, fish: FISH } as const;

/** A shell that has a script. */
export type Shell = keyof typeof COMPLETION_SCRIPTS;

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
