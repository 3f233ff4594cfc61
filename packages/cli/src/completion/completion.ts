import { Argument, Command } from 'commander';
import type { Context } from '../context.ts';
import { sanitizeLine } from '../terminal/harmless.ts';
import { afterWordBreak, splitWords } from './bash-line.ts';
import { fetchNames, hasNameList } from './names.ts';
import { COMPLETION_SCRIPTS, type Shell } from './shells.ts';
import { type NameCompletion, type Suggestion, suggest } from './suggest.ts';

/** `sluice completion <shell>`: a script that makes the shell complete commands, options and names. */
export function completionCommand({ terminal }: Context): Command {
  return new Command('completion')
    .description('Print a shell completion script')
    .addArgument(new Argument('<shell>', 'Shell').choices(Object.keys(COMPLETION_SCRIPTS)))
    .addHelpText(
      'after',
      `
For bash, in ~/.bashrc:    source <(sluice completion bash)
For zsh, in ~/.zshrc:      source <(sluice completion zsh)
For fish:                  sluice completion fish > ~/.config/fish/completions/sluice.fish`,
    )
    .action((shell: Shell) => terminal.stdout.write(COMPLETION_SCRIPTS[shell]));
}

/**
 * `sluice complete <shell> -- <words...>`: what the scripts ask. Global options in the words count, so that names come
 * from the host that the line names.
 */
export function completeCommand(context: Context, program: Command): Command {
  const named = async (
    { of, before, typed: start }: NameCompletion,
    words: readonly string[],
  ): Promise<Suggestion[]> => {
    if (!hasNameList(of)) return [];
    program.parseOptions(words.slice(0, -1));
    const names = await fetchNames(of, context);
    // Whoever names a tool could put an option into the line, such as another host for the token that is in it.
    const isName = (name: string) => !name.startsWith('-') || words.slice(0, -1).includes('--');
    return names
      .filter((name) => name.startsWith(start) && isName(name))
      .map((name) => ({ value: before + name, description: '' }));
  };
  return new Command('complete')
    .argument('<shell>')
    .argument('[words...]')
    .action(async (shell: string, words: readonly string[]) => {
      const typed = shell === 'bash' ? splitWords(words[0] ?? '').slice(1) : words;
      const wanted = suggest(program, typed);
      const found = wanted.kind === 'suggestions' ? wanted.suggestions : await named(wanted, typed);
      for (const { value, description } of found) {
        // A name that a terminal could not show as it is cannot be typed either.
        if (sanitizeLine(value) !== value) continue;
        const line =
          shell === 'bash'
            ? afterWordBreak(value, typed.at(-1) ?? '')
            : description === ''
              ? value
              : `${value}\t${description}`;
        context.terminal.stdout.write(`${line}\n`);
      }
    });
}
