import { Failure } from '../failure.ts';
import type { TerminalInput } from './terminal.ts';

/** Asks for a yes or a no, no when nothing is entered; undefined when no answer comes. Only where there is a terminal. */
export async function confirm(question: string, { line }: Pick<TerminalInput, 'line'>): Promise<boolean | undefined> {
  const answer = await line(`${question} [y/N] `);
  return answer === undefined ? undefined : /^y(?:es)?$/i.test(answer.trim());
}

/** Asks before something is changed. Throws {@link Failure} for anything but a yes. */
export async function requireConfirmation(question: string, keyboard: Pick<TerminalInput, 'line'>): Promise<void> {
  if (!(await confirm(question, keyboard))) throw new Failure('nothing was changed');
}
