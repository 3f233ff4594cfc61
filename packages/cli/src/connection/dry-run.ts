import { isJsonObject, type JsonValue, parseLossless } from '@sluice/protocol/json/parse';
import type { Command } from 'commander';
import { Exit } from '../failure.ts';
import type { Send } from '../http/fetch.ts';
import type { Output } from '../output/output.ts';

/** Groups whose commands use the management API. */
const API_GROUPS: readonly string[] = [
  'forwards',
  'namespaces',
  'tools',
  'resources',
  'prompts',
  'services',
  'evaluators',
  'access',
  'identity',
  'interactions',
  'tasks',
];

/** Commands that change something, by their names. */
const CHANGES: readonly string[] = [
  'activate',
  'add',
  'apply',
  'bind',
  'block',
  'cancel',
  'clear',
  'create',
  'delete',
  'disable',
  'edit',
  'enable',
  'expose',
  'import',
  'provision',
  'refresh',
  'remove',
  'unbind',
  'unblock',
];

/** Adds `--dry-run` to the commands that change something through the management API. */
export function addDryRunOptions(program: Command): void {
  for (const group of program.commands.filter((command) => API_GROUPS.includes(command.name()))) addTo(group);
}

function addTo(command: Command): void {
  const isKnown = command.options.some(({ long }) => long === '--dry-run');
  if (CHANGES.includes(command.name()) && !isKnown) {
    command.option('--dry-run', 'Print the request without sending it');
  }
  for (const child of command.commands) addTo(child);
}

/**
 * Sends only requests that change nothing. Prints the first other one and ends the command successfully, unless the
 * entry that it is about does not exist.
 */
export function withoutChanges(send: Send, output: () => Output): Send {
  return async (request) => {
    const isRead = request.method === 'GET' || new URL(request.url).searchParams.get('dry_run') === 'true';
    if (isRead) return send(request);
    const entry = entryUrl(request);
    const found = entry && (await send(new Request(entry, { headers: request.headers, signal: request.signal })));
    // Some entries cannot be read one by one.
    if (found && !found.ok && found.status !== METHOD_NOT_ALLOWED) return found;
    await found?.body?.cancel();
    printRequest(request, await request.text(), output());
    throw new Exit(0);
  };
}

const METHOD_NOT_ALLOWED = 405;

/** URL of the entry that a request deletes or acts on. */
function entryUrl({ method, url }: Request): URL | undefined {
  const entry = new URL(url);
  entry.searchParams.delete('cascade');
  const [, path] = /^(.*)\/(?:activate|cancel|provisions|refreshes)$/.exec(entry.pathname) ?? [];
  if (path !== undefined) entry.pathname = path;
  else if (method !== 'DELETE') return undefined;
  return entry;
}

function printRequest({ method, url }: Request, text: string, output: Output): void {
  const { pathname, search } = new URL(url);
  const request = `${method} ${pathname}${search}`;
  const body = text === '' ? undefined : hideSecrets(pathname, parseLossless(text));
  const printed = { dryRun: true, request, ...(body !== undefined && { body }) };
  if (output.format === 'name') output.done(undefined, `not sent: ${request}`);
  else output.show(printed);
}

/** The contents of provisioned files are never printed. */
function hideSecrets(path: string, body: JsonValue): JsonValue {
  if (!path.endsWith('/provisions') || !isJsonObject(body)) return body;
  const hide = ([name, value]: [string, JsonValue]): [string, JsonValue] =>
    name === 'configuration' || name === 'secrets' ? [name, `(${String(value).length} characters)`] : [name, value];
  return Object.fromEntries(Object.entries(body).map(hide));
}
