import type { Client, ElicitRequestFormParams, ElicitResult } from '@modelcontextprotocol/client';
import { confirm, type Terminal } from '../terminal/terminal.ts';
import { abbreviate, sanitizeLine, sanitizeText } from '../terminal/text.ts';
import { fillForm } from './form.ts';
import type { IdleTimeout } from './idle-timeout.ts';

/**
 * Parses an http or https URL that is safe to show; undefined for others. The parsed form reveals look-alike hosts in
 * other alphabets, and user names that pass for a host are rejected.
 */
export function parseWebUrl(text: string): URL | undefined {
  const url = URL.parse(text);
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) return undefined;
  return url.username === '' && url.password === '' ? url : undefined;
}

/**
 * Handles elicitation requests of the server at the terminal, one at a time; declines them without a terminal. Nothing
 * is sent that the user has not seen and confirmed.
 */
export function handleElicitations(client: Client, terminal: Terminal, server: URL, idleTimeout: IdleTimeout): void {
  let before: Promise<unknown> = Promise.resolve();
  client.setRequestHandler('elicitation/create', ({ params }) => {
    const reply = before.then(() =>
      'url' in params ? elicitUrl(params, terminal, server) : elicitForm(params, terminal, server),
    );
    before = reply.catch(() => undefined);
    return idleTimeout.pauseDuring(reply);
  });
}

async function elicitForm(params: ElicitRequestFormParams, terminal: Terminal, server: URL): Promise<ElicitResult> {
  const { stdin, stderr } = terminal;
  printMessage(terminal, `${server.host} requests input: ${params.message}`);
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
  printMessage(terminal, `${server.host} asks you to open a URL: ${message}`);
  const url = parseWebUrl(address);
  if (url === undefined) {
    terminal.stderr.write(`  ${sanitizeLine(abbreviate(address))}\nDeclined: not a plain http or https URL.\n`);
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
  stderr.write('Declined: no terminal for a prompt.\n');
  return { action: 'decline' };
}
