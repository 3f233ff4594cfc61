import type { Command, Option } from 'commander';

/** Alternative names of commands, in addition to the singular of those in the plural. Help does not list them. */
const ALIASES: Readonly<Record<string, readonly string[]>> = {
  add: ['create', 'expose'],
  create: ['add'],
  list: ['ls'],
  remove: ['delete', 'rm'],
  delete: ['remove', 'rm'],
  // `get` of evaluators takes no name.
  get: ['list', 'ls'],
  namespaces: ['ns'],
  statistics: ['stats'],
  action: ['actions'],
  // Of `mcp`, whose commands are in the singular.
  tool: ['tools'],
  resource: ['resources'],
  prompt: ['prompts'],
};

/** Returns the subcommand that a word selects: by its name, its singular, or an alias. */
export function findCommand({ commands }: Command, word: string): Command | undefined {
  const named = (name: string) => commands.find((candidate) => candidate.name() === name);
  if (word === 'get') return named('get') ?? named('show') ?? named('list');
  return named(word) ?? commands.find((candidate) => isAlias(word, candidate.name()));
}

/** Whether a word is the singular or an alias of the name of a command. */
export function isAlias(word: string, name: string): boolean {
  return `${word}s` === name || ALIASES[name]?.includes(word) === true;
}

/** Returns the first word of a line that is no option of the program, nor the value of one. */
export function firstWord(program: Command, argv: readonly string[]): string | undefined {
  let isValue = false;
  return argv.find((word) => {
    const wasValue = isValue;
    isValue = !wasValue && word.startsWith('-') && optionWithValue(program, word) !== undefined;
    return !wasValue && !word.startsWith('-');
  });
}

/** Returns the option of a command, or of one above it, whose value is the word after this one. */
export function optionWithValue(command: Command, word: string): Option | undefined {
  const option = command.options.find(({ short, long }) => short === word || long === word);
  if (option) return option.required || option.optional ? option : undefined;
  return command.parent ? optionWithValue(command.parent, word) : undefined;
}

/**
 * Replaces aliases by the names of the commands. The parser would list aliases of its own in help and in suggestions,
 * and has none that depend on the rest of the line: `get` is `show` with a name and `list` without one.
 *
 * Also replaces a short option of a command that the program has too by its long form, because the parser takes options
 * of the program from anywhere in the line: `-o` of `action build`.
 */
export function resolveAliases(program: Command, argv: readonly string[]): string[] {
  const resolved: string[] = [];
  let command = program;
  /** Whether the next word that is no option may be a command. */
  let mayBeCommand = true;
  let isValue = false;
  for (const [at, word] of argv.entries()) {
    if (isValue) {
      isValue = false;
      resolved.push(word);
    } else if (word === '--') {
      return [...resolved, ...argv.slice(at)];
    } else if (word.startsWith('-')) {
      isValue = optionWithValue(command, word) !== undefined;
      resolved.push(expandShadowing(command, program, word));
    } else if (word === 'help' && mayBeCommand) {
      resolved.push(word);
    } else {
      const child: Command | undefined = mayBeCommand ? findCommand(command, word) : undefined;
      mayBeCommand = child !== undefined;
      const isList = word === 'get' && child?.name() === 'show' && !namesEntry(child, argv.slice(at + 1));
      resolved.push(isList ? 'list' : (child?.name() ?? word));
      command = child ?? command;
    }
  }
  return resolved;
}

/** `-o FILE` and `-oFILE` become `--out FILE` and `--out=FILE`. */
function expandShadowing(command: Command, program: Command, word: string): string {
  const [, short, value] = /^(-[a-z])(.*)$/s.exec(word) ?? [];
  if (short === undefined || command === program) return word;
  const own = command.options.find((option) => option.short === short);
  if (!own?.long || !program.options.some((option) => option.short === short)) return word;
  return value ? `${own.long}=${value}` : own.long;
}

/** Whether the words after a command contain an argument or `--name`. */
function namesEntry(command: Command, words: readonly string[]): boolean {
  let isValue = false;
  for (const word of words) {
    if (isValue) isValue = false;
    else if (!word.startsWith('-') || /^(?:-n|--name\b)/.test(word)) return true;
    else isValue = optionWithValue(command, word) !== undefined;
  }
  return false;
}
