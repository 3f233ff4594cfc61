import type { Command, Option } from 'commander';

/** What could stand where the cursor is. */
export interface Suggestion {
  readonly value: string;
  readonly description: string;
}

/** Names that only the service knows. */
export interface NameCompletion {
  readonly kind: 'names';
  /** The argument's or option's name: `tool`, `namespace`. */
  readonly of: string;
  /** Goes in front of each name. */
  readonly before: string;
  /** What the names begin with. */
  readonly typed: string;
}

/** What could stand at the cursor: things that the command line itself knows, or names. */
export type Completion = { readonly kind: 'suggestions'; readonly suggestions: readonly Suggestion[] } | NameCompletion;

/** What could stand in place of the last word. The words are those behind `sluice`. */
export function suggest(program: Command, words: readonly string[]): Completion {
  const typed = words.at(-1) ?? '';
  let command = program;
  let position = 0;
  let pending: Option | undefined;
  for (const word of words.slice(0, -1)) {
    if (pending) pending = undefined;
    else if (word.startsWith('-')) pending = word.includes('=') ? undefined : takesValue(optionOf(command, word));
    else {
      const child = command.commands.find(
        (candidate) => candidate.name() === word || candidate.aliases().includes(word),
      );
      if (child) command = child;
      else position += 1;
    }
  }
  if (pending) return completeValue(pending, command, '', typed);
  const [, flag, value] = /^(--[^=]+)=(.*)$/s.exec(typed) ?? [];
  const assigned = flag === undefined ? undefined : takesValue(optionOf(command, flag));
  if (assigned) return completeValue(assigned, command, `${flag}=`, value ?? '');
  if (typed.startsWith('-')) return matching(optionsOf(command).map(optionSuggestion), typed);
  if (command.commands.length > 0) {
    const visible = command.createHelp().visibleCommands(command);
    return matching(
      visible.map((child) => ({ value: child.name(), description: child.description() })),
      typed,
    );
  }
  const { registeredArguments } = command;
  const argument = registeredArguments[Math.min(position, registeredArguments.length - 1)];
  if (!argument || (position >= registeredArguments.length && !argument.variadic)) return matching([], typed);
  if (argument.argChoices) return matching(argument.argChoices.map(valueSuggestion), typed);
  return { kind: 'names', of: argument.name(), before: '', typed };
}

function completeValue(option: Option, command: Command, before: string, typed: string): Completion {
  if (option.argChoices)
    return matching(
      option.argChoices.map((choice) => valueSuggestion(before + choice)),
      before + typed,
    );
  // `--name` may say which one is meant, as the argument does; where something is made or renamed, it is a new name.
  const isNew = command.name() === 'edit' || command.name() === 'create';
  const [argument] = option.long === '--name' && !isNew ? command.registeredArguments : [];
  return { kind: 'names', of: argument?.name() ?? option.attributeName(), before, typed };
}

/** Options of the command and of the program; those that are hidden from help stay hidden. */
function optionsOf(command: Command): Option[] {
  const help = command.createHelp();
  help.showGlobalOptions = true;
  return [...help.visibleOptions(command), ...help.visibleGlobalOptions(command)];
}

function optionOf(command: Command, flag: string): Option | undefined {
  return optionsOf(command).find((option) => option.short === flag || option.long === flag);
}

function takesValue(option: Option | undefined): Option | undefined {
  return option && (option.required || option.optional) ? option : undefined;
}

function optionSuggestion({ long, short, description }: Option): Suggestion {
  return { value: long ?? short ?? '', description };
}

function valueSuggestion(value: string): Suggestion {
  return { value, description: '' };
}

function matching(suggestions: readonly Suggestion[], typed: string): Completion {
  return { kind: 'suggestions', suggestions: suggestions.filter(({ value }) => value.startsWith(typed)) };
}
