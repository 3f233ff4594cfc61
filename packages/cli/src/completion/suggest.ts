import type { Command, Option } from 'commander';
import { findCommand, optionWithValue } from '../command-words.ts';

/** A completion of the word at the cursor. */
export interface Suggestion {
  readonly value: string;
  readonly description: string;
}

/** Names that only the service knows. */
export interface NameCompletion {
  readonly kind: 'names';
  /** Name of the argument or option: `tool`, `namespace`. */
  readonly of: string;
  /** Prefix of each name. */
  readonly before: string;
  /** Typed part of the name. */
  readonly typed: string;
}

/** Completions from the command line definition, or names from the service. */
export type Completion = { readonly kind: 'suggestions'; readonly suggestions: readonly Suggestion[] } | NameCompletion;

/** Returns completions for the last word. The words exclude `sluice`. */
export function suggest(program: Command, words: readonly string[]): Completion {
  const typed = words.at(-1) ?? '';
  let command = program;
  let position = 0;
  let pending: Option | undefined;
  for (const word of words.slice(0, -1)) {
    if (pending) pending = undefined;
    else if (word.startsWith('-')) pending = word.includes('=') ? undefined : optionWithValue(command, word);
    else {
      const child = findCommand(command, word);
      if (child) command = child;
      else position += 1;
    }
  }
  if (pending) return completeValue(pending, command, '', typed);
  const [, flag, value] = /^(--[^=]+)=(.*)$/s.exec(typed) ?? [];
  const assigned = flag === undefined ? undefined : optionWithValue(command, flag);
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
  // `--name` selects an existing entry, except where it sets a new name.
  const isNew = command.name() === 'edit' || command.name() === 'create';
  const [argument] = option.long === '--name' && !isNew ? command.registeredArguments : [];
  return { kind: 'names', of: argument?.name() ?? option.attributeName(), before, typed };
}

/** Visible options of the command and the program. */
function optionsOf(command: Command): Option[] {
  const help = command.createHelp();
  help.showGlobalOptions = true;
  return [...help.visibleOptions(command), ...help.visibleGlobalOptions(command)];
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
