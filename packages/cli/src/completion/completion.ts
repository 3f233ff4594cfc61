import { type Client, unwrap } from '@sluice/contract/client';
import { Argument, Command } from 'commander';
import type { Context } from '../context.ts';
import { sanitizeLine } from '../terminal/text.ts';
import { afterWordBreak, COMPLETION_SCRIPTS, type Shell, splitWords } from './shells.ts';
import { type NameCompletion, type Suggestion, suggest } from './suggest.ts';

/** Whoever presses a key does not wait longer. */
const LOOKUP_TIMEOUT_MS = 1500;

/** Whether the service has a list of what an argument or option is named for. */
export function hasNameList(kind: string): boolean {
  return Object.hasOwn(NAME_LISTS, kind);
}

/**
 * The names of a kind (`tool`, `namespace`) that the service has. Whatever goes wrong is kept quiet: a person is in the
 * middle of a line.
 */
export async function fetchNames(kind: string, context: Context): Promise<string[]> {
  const list = NAME_LISTS[kind];
  if (!list) return [];
  const signal = AbortSignal.timeout(LOOKUP_TIMEOUT_MS);
  const tooLate = new Promise<never>((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
  // What an identity provider takes to renew a log-in is not for the middle of a line.
  const asked = context.connect({ renew: false }).then((client) => list(client, signal));
  try {
    const found = await Promise.race([asked, tooLate]);
    return [...new Set(found.map(({ name }) => name))];
  } catch {
    return [];
  }
}

type NameList = (client: Client, signal: AbortSignal) => Promise<readonly { readonly name: string }[]>;

const listNamespaces: NameList = (client, signal) => unwrap(client.GET('/api/v1/namespaces', { signal }));

const NAME_LISTS: Readonly<Record<string, NameList>> = {
  tool: (client, signal) => unwrap(client.GET('/api/v1/tools', { signal })),
  resource: (client, signal) => unwrap(client.GET('/api/v1/resources', { signal })),
  prompt: (client, signal) => unwrap(client.GET('/api/v1/prompts', { signal })),
  forward: (client, signal) => unwrap(client.GET('/api/v1/forwards', { signal })),
  service: (client, signal) => unwrap(client.GET('/api/v1/services', { signal })),
  revision: async (client, signal) =>
    (await unwrap(client.GET('/api/v1/evaluators/revisions', { signal }))).map(({ id }) => ({ name: String(id) })),
  namespace: listNamespaces,
  moveTo: listNamespaces,
};

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
