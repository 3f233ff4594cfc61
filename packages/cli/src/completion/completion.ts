import { Argument, Command } from 'commander';
import type { Context } from '../context.ts';
import { harmlessLine } from '../terminal/harmless.ts';
import { behindBreak, splitLine } from './bash-line.ts';
import { hasNames, namesOf } from './names.ts';
import { SHELLS, type Shell } from './shells.ts';
import { type Suggestion, suggest, type WantedNames } from './suggest.ts';

/** `sluice completion <shell>`: a script that makes the shell complete commands, options and names. */
export function completion({ terminal }: Context): Command {
  return new Command('completion')
    .description('Print a shell completion script')
    .addArgument(new Argument('<shell>', 'Shell').choices(Object.keys(SHELLS)))
    .addHelpText(
      'after',
      `
For bash, in ~/.bashrc:    source <(sluice completion bash)
For zsh, in ~/.zshrc:      source <(sluice completion zsh)
For fish:                  sluice completion fish > ~/.config/fish/completions/sluice.fish`,
    )
    .action((shell: Shell) => terminal.stdout.write(SHELLS[shell]));
}

/**
 * `sluice complete <shell> -- <words...>`: what the scripts ask. Global options in the words count, so that names come
 * from the host that the line names.
 */
export function completeCommand(context: Context, program: Command): Command {
  const named = async ({ of, before, typed: start }: WantedNames, words: readonly string[]): Promise<Suggestion[]> => {
    if (!hasNames(of)) return [];
    program.parseOptions(words.slice(0, -1));
    const names = await namesOf(of, context);
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
      const typed = shell === 'bash' ? splitLine(words[0] ?? '').slice(1) : words;
      const wanted = suggest(program, typed);
      const found = wanted.kind === 'suggestions' ? wanted.suggestions : await named(wanted, typed);
      for (const { value, description } of found) {
        // A name that a terminal could not show as it is cannot be typed either.
        if (harmlessLine(value) !== value) continue;
        const line =
          shell === 'bash'
            ? behindBreak(value, typed.at(-1) ?? '')
            : description === ''
              ? value
              : `${value}\t${description}`;
        context.terminal.stdout.write(`${line}\n`);
      }
    });
}
