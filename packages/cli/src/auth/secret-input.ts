import { Failure } from '../failure.ts';
import type { Terminal } from '../terminal/terminal.ts';

/**
 * A secret that an option gives: itself, or with `-` the first line of standard input, so that no list of processes shows
 * it. Without the option it is asked for on the terminal, unseen. Throws {@link Failure} when nobody can be asked, or
 * nothing is entered.
 */
export async function readSecret(
  given: string | undefined,
  option: string,
  question: string,
  { stdin }: Terminal,
): Promise<string> {
  if (given !== undefined && given !== '-') return given;
  if (given === '-') {
    const [line = ''] = (await stdin.text()).split(/\r?\n/);
    return line;
  }
  if (!stdin.isTerminal) throw new Failure(`no terminal to ask on: give ${option}, with "-" to read standard input`);
  const secret = await stdin.secret(question);
  if (secret === undefined) throw new Failure('nothing was entered');
  return secret;
}
