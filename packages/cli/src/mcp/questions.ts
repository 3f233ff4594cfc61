import type { Client, ElicitRequestFormParams, ElicitResult } from '@modelcontextprotocol/client';
import { brief } from '../terminal/brief.ts';
import { confirm } from '../terminal/confirm.ts';
import { harmlessLine, harmlessText } from '../terminal/harmless.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { fillIn } from './form.ts';
import type { Patience } from './patience.ts';
import { webAddress } from './web-address.ts';

/**
 * Puts the server's questions to the person at the terminal, one after the other even when several come at once, and
 * declines them where nobody can be asked. Nothing is sent that the person has not seen and agreed to.
 */
export function answerQuestions(client: Client, terminal: Terminal, server: URL, patience: Patience): void {
  let before: Promise<unknown> = Promise.resolve();
  client.setRequestHandler('elicitation/create', ({ params }) => {
    const asked = before.then(() =>
      'url' in params ? askToVisit(params, terminal, server) : askForm(params, terminal, server),
    );
    before = asked.catch(() => undefined);
    return patience.pausedDuring(asked);
  });
}

async function askForm(params: ElicitRequestFormParams, terminal: Terminal, server: URL): Promise<ElicitResult> {
  const { stdin, stderr } = terminal;
  tell(terminal, `${server.host} asks: ${params.message}`);
  if (!stdin.isTerminal) return declined(terminal);
  const content = await fillIn(params.requestedSchema, terminal);
  if (content === undefined) return { action: 'cancel' };
  const yes = await confirm(`Send this to ${server.host}?`, stdin);
  if (yes === undefined) return { action: 'cancel' };
  if (yes) return { action: 'accept', content };
  stderr.write('Not sent.\n');
  return { action: 'decline' };
}

async function askToVisit(
  { url: address, message }: { readonly url: string; readonly message: string },
  terminal: Terminal,
  server: URL,
): Promise<ElicitResult> {
  tell(terminal, `${server.host} asks you to visit an address: ${message}`);
  const url = webAddress(address);
  if (url === undefined) {
    terminal.stderr.write(`  ${harmlessLine(brief(address))}\nThat is no plain web address; declined.\n`);
    return { action: 'decline' };
  }
  terminal.stderr.write(`  ${url.href}\n`);
  if (!terminal.stdin.isTerminal) return declined(terminal);
  const yes = await confirm('Open it in your browser. Done?', terminal.stdin);
  if (yes === undefined) return { action: 'cancel' };
  return { action: yes ? 'accept' : 'decline' };
}

function tell({ stderr }: Terminal, text: string): void {
  stderr.write(`${harmlessText(brief(text)).replaceAll('\n', '\n  ')}\n`);
}

function declined({ stderr }: Terminal): ElicitResult {
  stderr.write('Declined: there is no terminal to ask at.\n');
  return { action: 'decline' };
}
