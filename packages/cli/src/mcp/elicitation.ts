import type { Client, ElicitRequestFormParams, ElicitResult } from '@modelcontextprotocol/client';
import { confirm, type Terminal } from '../terminal/terminal.ts';
import { abbreviate, sanitizeLine, sanitizeText } from '../terminal/text.ts';
import { fillForm } from './form.ts';
import type { IdleTimeout } from './idle-timeout.ts';

/**
 * An address that somebody may be asked to visit; undefined for anything else. Shown as it is parsed, so that letters of
 * other alphabets cannot pass for another host; and none with a name before the host, which passes for the host itself.
 */
export function parseWebUrl(text: string): URL | undefined {
  const url = URL.parse(text);
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) return undefined;
  return url.username === '' && url.password === '' ? url : undefined;
}

/**
 * Puts the server's questions to the person at the terminal, one after the other even when several come at once, and
 * declines them where nobody can be asked. Nothing is sent that the person has not seen and agreed to.
 */
export function handleElicitations(client: Client, terminal: Terminal, server: URL, idleTimeout: IdleTimeout): void {
  let before: Promise<unknown> = Promise.resolve();
  client.setRequestHandler('elicitation/create', ({ params }) => {
    const asked = before.then(() =>
      'url' in params ? elicitUrl(params, terminal, server) : elicitForm(params, terminal, server),
    );
    before = asked.catch(() => undefined);
    return idleTimeout.pauseDuring(asked);
  });
}

async function elicitForm(params: ElicitRequestFormParams, terminal: Terminal, server: URL): Promise<ElicitResult> {
  const { stdin, stderr } = terminal;
  printMessage(terminal, `${server.host} asks: ${params.message}`);
  if (!stdin.isTerminal) return decline(terminal);
  const content = await fillForm(params.requestedSchema, terminal);
  if (content === undefined) return { action: 'cancel' };
  const yes = await confirm(`Send this to ${server.host}?`, stdin);
  if (yes === undefined) return { action: 'cancel' };
  if (yes) return { action: 'accept', content };
  stderr.write('Not sent.\n');
  return { action: 'decline' };
}

async function elicitUrl(
  { url: address, message }: { readonly url: string; readonly message: string },
  terminal: Terminal,
  server: URL,
): Promise<ElicitResult> {
  printMessage(terminal, `${server.host} asks you to visit an address: ${message}`);
  const url = parseWebUrl(address);
  if (url === undefined) {
    terminal.stderr.write(`  ${sanitizeLine(abbreviate(address))}\nThat is no plain web address; declined.\n`);
    return { action: 'decline' };
  }
  terminal.stderr.write(`  ${url.href}\n`);
  if (!terminal.stdin.isTerminal) return decline(terminal);
  const yes = await confirm('Open it in your browser. Done?', terminal.stdin);
  if (yes === undefined) return { action: 'cancel' };
  return { action: yes ? 'accept' : 'decline' };
}

function printMessage({ stderr }: Terminal, text: string): void {
  stderr.write(`${sanitizeText(abbreviate(text)).replaceAll('\n', '\n  ')}\n`);
}

function decline({ stderr }: Terminal): ElicitResult {
  stderr.write('Declined: there is no terminal to ask at.\n');
  return { action: 'decline' };
}
