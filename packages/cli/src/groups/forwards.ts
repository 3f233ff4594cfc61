import { setTimeout as delay } from 'node:timers/promises';
import type { Forward, ForwardChange } from '@sluice/contract';
import { type Client, unwrap, unwrapPage } from '@sluice/contract/client';
import { isStdioCommand } from '@sluice/contract/stdio-command';
import { counted } from '@sluice/protocol/text';
import { Command } from 'commander';
import type { Context } from '../context.ts';
import {
  addNameOption,
  collectKeyValue,
  collectValue,
  type NameOption,
  requireName,
} from '../entries/entry-options.ts';
import { addPageOptions, listPages, noteOmitted, type PageOptions, parsePositive } from '../entries/list-pages.ts';
import { isNewNamespace, NEW_NAMESPACE_NOTE, requireNamespace } from '../entries/lookup.ts';
import { Exit, Failure } from '../failure.ts';
import { validated } from '../files/document.ts';
import { sanitizeLine } from '../terminal/text.ts';
import { notAnUpstreamUrl } from '../upstream-url.ts';
import { addExposeOptions, EXPOSE_HELP, type ExposeOptions, parseExposeOptions } from './expose-options.ts';
import { collectHeader, HEADER_HELP, HEADER_NOTE, withProgress } from './forward-options.ts';
import { testForwardCommand } from './forward-test.ts';

/**
 * Describes the tools of a forward that are shadowed: ` (3 shadowed by forward crm; use --prefix)`. Empty when none is
 * shadowed or the request fails: the forward was added in any case.
 */
async function describeShadowedTools(
  client: Client,
  { name: forward, namespace }: { readonly name: string; readonly namespace: string },
): Promise<string> {
  const query = { namespace, include: 'shadowed' as const };
  const tools = await unwrap(client.GET('/api/v1/tools', { params: { query } })).catch(() => []);
  const ofForward = tools.filter((tool) => tool.forward === forward);
  const names = new Set(ofForward.filter(({ shadowed }) => shadowed).map(({ name }) => name));
  if (names.size === 0) return '';
  const holders = tools.filter(({ name, shadowed }) => names.has(name) && !shadowed);
  const by = [
    ...new Set(holders.map((tool) => (tool.forward ? `forward ${tool.forward}` : 'manually registered tools'))),
  ];
  const reason = `shadowed by ${by.join(', ')}`;
  return names.size === ofForward.length
    ? `, all ${reason} (use --prefix)`
    : ` (${names.size} ${reason}; use --prefix)`;
}

/** `sluice forwards`. */
export function forwardsCommand(context: Context): Command {
  return new Command('forwards')
    .description('Manage forwards (upstream MCP servers)')
    .addCommand(listCommand(context))
    .addCommand(showCommand(context))
    .addCommand(addCommand(context))
    .addCommand(editCommand(context))
    .addCommand(refreshCommand(context))
    .addCommand(testForwardCommand(context))
    .addCommand(historyCommand(context))
    .addCommand(removeCommand(context));
}

const COMPRESSION_HELP = 'Let the upstream compress its responses, for slow connections';

interface Counts {
  readonly tools_discovered: number;
  readonly resources_discovered: number;
  readonly prompts_discovered: number;
}

function formatCounts(counts: Counts, shadowed = ''): string {
  const { tools_discovered: tools, resources_discovered: resources, prompts_discovered: prompts } = counts;
  return `${counted(tools, 'tool')}${shadowed}, ${counted(resources, 'resource')}, ${counted(prompts, 'prompt')}`;
}

function listCommand(context: Context): Command {
  const command = new Command('list')
    .description('List forwards')
    .option('-N, --namespace <namespace>', 'Only forwards in this namespace');
  return addPageOptions(command, 'forwards').action(
    async ({ namespace, ...pages }: PageOptions & { readonly namespace?: string }) => {
      const client = await context.connect();
      const listed = await listPages(pages, (query) =>
        unwrapPage(client.GET('/api/v1/forwards', { params: { query: { namespace, ...query } } })),
      );
      const { rows: found } = listed;
      if (found.length === 0) await requireNamespace(client, namespace);
      context.output().list(
        found,
        [
          { title: 'NAME', value: ({ name }) => name, cut: 'never' },
          { title: 'NAMESPACE', value: ({ namespace }) => namespace, cut: 'never' },
          { title: 'ADDRESS', value: ({ address }) => address },
          { title: 'AVAILABLE', value: ({ available }) => (available ? 'yes' : 'no') },
          { title: 'TOOLS', value: (forward) => String(forward.tools_discovered) },
          { title: 'RESOURCES', value: (forward) => String(forward.resources_discovered) },
          { title: 'PROMPTS', value: (forward) => String(forward.prompts_discovered) },
          { title: 'STATUS', value: ({ statusMessage = '' }) => statusMessage, cut: 'first' },
        ],
        pages.search === undefined ? 'no forwards' : `no forwards match "${sanitizeLine(pages.search)}"`,
      );
      noteOmitted(context, listed, 'forwards');
    },
  );
}

function showCommand(context: Context): Command {
  return addNameOption(new Command('show').description('Show a forward'), 'forward').action(
    async (argument: string | undefined, options: NameOption) => {
      const name = requireName(argument, options, 'forward');
      const client = await context.connect();
      context.output().show(await unwrap(client.GET('/api/v1/forwards/{name}', { params: { path: { name } } })));
    },
  );
}

interface AddOptions extends NameOption, ExposeOptions {
  readonly url?: string;
  readonly namespace?: string;
  readonly prefix?: string;
  readonly label?: Record<string, string>;
  readonly header?: Record<string, string>;
  readonly proxy?: string;
  readonly compression?: boolean;
  /** Seconds, or true for the default. */
  readonly wait?: number | true;
}

const DEFAULT_WAIT_S = 60;
const WAIT_POLL_MS = 500;

function parseWait(text: string): number {
  return Number(parsePositive(text));
}

/** Returns the forward once it is available, or as it is after this time. */
async function waitUntilAvailable(
  { terminal }: Context,
  client: Client,
  forward: Forward,
  seconds: number,
): Promise<Forward> {
  const params = { path: { name: forward.name } };
  const end = performance.now() + seconds * 1000;
  let latest = forward;
  while (!latest.available && performance.now() < end) {
    await delay(WAIT_POLL_MS, undefined, { signal: terminal.interrupted });
    latest = await unwrap(client.GET('/api/v1/forwards/{name}', { params }));
  }
  return latest;
}

function addCommand(context: Context): Command {
  const command = new Command('add')
    .description('Add a forward and discover its tools, resources and prompts')
    .argument('[name]', 'Name of the forward')
    .argument('[url]', 'Upstream MCP server URL')
    .option('-n, --name <name>', 'Name of the forward, instead of the argument')
    .option('--url <url>', 'Upstream MCP server URL, instead of the argument')
    .option('-N, --namespace <namespace>', 'Namespace of the forward, created if it does not exist')
    .option('--prefix <prefix>', 'Prefix for the names of its tools and prompts')
    .option('-l, --label <key=value>', 'Label; may be repeated', collectKeyValue)
    .option('--header <name: value>', HEADER_HELP, collectHeader)
    .option('--proxy <url>', 'HTTP proxy for requests to the upstream, or "none" to use no proxy')
    .option('--compression', COMPRESSION_HELP)
    .option(
      '--wait [seconds]',
      'Wait until the upstream is available (default: 60; exit code 1 if it is not)',
      parseWait,
    );
  return addExposeOptions(command)
    .addHelpText(
      'after',
      `
${HEADER_NOTE}

${EXPOSE_HELP}

Examples:
  sluice forwards add crm http://127.0.0.1:3001/mcp --prefix crm_
  sluice forwards add crm http://127.0.0.1:3001/mcp --wait 30
  sluice forwards add crm http://127.0.0.1:3001/mcp --header 'Authorization: Bearer \${env:SERVICE_SECRET_CRM}'
  sluice forwards add files http://127.0.0.1:3002/mcp --allow 'tools:read_*' --deny 'resources:*secret*' --new disabled`,
    )
    .action(async (_name: string | undefined, _url: string | undefined, options: AddOptions) => {
      const { namespace, prefix, label: labels, header: headers, proxy, compression, wait } = options;
      const { name, address } = requireNameAndAddress(command.args, options);
      const { mergeExpose } = await import('@sluice/contract');
      const expose = mergeExpose(undefined, parseExposeOptions(options));
      const described = { name, address, namespace, prefix, labels, headers, expose, proxy, compression };
      const body = await validated(({ forwardInput }) => forwardInput, described, 'forward');
      const client = await context.connect();
      const isNew = await isNewNamespace(client, namespace);
      const seconds = wait === true ? DEFAULT_WAIT_S : wait;
      const added = await withProgress(
        context,
        `discovering ${name}`,
        unwrap(client.POST('/api/v1/forwards', { body })).then((created) =>
          seconds === undefined ? created : waitUntilAvailable(context, client, created, seconds),
        ),
      );
      const found = added.available
        ? formatCounts(added, added.statusMessage === undefined ? '' : await describeShadowedTools(client, added))
        : `not available yet: ${added.statusMessage ?? 'no reason given'}`;
      context
        .output()
        .done(added, `added forward ${added.name} to ${added.namespace}${isNew ? NEW_NAMESPACE_NOTE : ''}: ${found}`);
      if (seconds !== undefined && !added.available) throw new Exit(1);
    });
}

/**
 * Returns name and address, each from an argument or an option. The first argument beside `--name` is the address. Several
 * words may be the command of a server: `add NAME -- npx -y …`.
 */
function requireNameAndAddress(words: readonly string[], options: AddOptions) {
  const isNamed = options.name !== undefined && options.url === undefined;
  const isAddressOnly = isNamed && (words.length === 1 || isStdioCommand(words.join(' ')));
  const [argument, ...rest] = isAddressOnly ? [undefined, ...words] : words;
  const name = requireName(argument, options, 'forward');
  if (rest.length > 0 && options.url !== undefined) {
    throw new Failure('the URL of the forward is given twice: omit --url');
  }
  const address = rest.length > 0 ? rest.join(' ') : options.url;
  if (address === undefined) throw new Failure(`missing URL of the forward: sluice forwards add ${name} URL`);
  // The service knows which URLs it can use.
  if (!/^[a-z][a-z\d+.-]*:\D/i.test(address)) {
    const problem = `invalid address "${address}" for forward "${name}": expected a URL such as http://127.0.0.1:3001/mcp`;
    throw notAnUpstreamUrl(address, problem, (bridge) => `sluice forwards add ${name} ${bridge}`);
  }
  if (rest.length > 1) throw new Failure(`too many arguments: ${rest.slice(1).join(' ')}`);
  return { name, address };
}

interface EditOptions extends NameOption, ExposeOptions {
  readonly url?: string;
  readonly namespace?: string;
  readonly prefix?: string;
  readonly label?: Record<string, string>;
  readonly removeLabel?: readonly string[];
  readonly header?: Record<string, string>;
  readonly removeHeader?: readonly string[];
  readonly proxy?: string;
  readonly compression?: boolean;
}

function editCommand(context: Context): Command {
  const command = addNameOption(new Command('edit').description('Change a forward'), 'forward')
    .option('--url <url>', 'Upstream MCP server URL')
    .option('-N, --namespace <namespace>', 'Namespace to move the forward and its entries to')
    .option('--prefix <prefix>', 'Prefix for the names of its tools and prompts; "" removes it')
    .option('-l, --label <key=value>', 'Label to set; may be repeated', collectKeyValue)
    .option('--remove-label <key>', 'Label to remove; may be repeated', collectValue)
    .option('--header <name: value>', HEADER_HELP, collectHeader)
    .option('--remove-header <name>', 'Header to remove; may be repeated', collectValue)
    .option('--proxy <url>', 'HTTP proxy for requests to the upstream, or "none"; "" selects that of the service')
    .option('--compression', COMPRESSION_HELP)
    .option('--no-compression', 'Ask the upstream not to compress its responses');
  return addExposeOptions(command)
    .addHelpText(
      'after',
      `
Overrides, renames, moves and disabled entries are retained. The discovered entries remain until a new address is discovered.
A forward with headers needs --header or --remove-header when its address moves to another origin.

${HEADER_NOTE}

${EXPOSE_HELP}
The given globs replace those of the same kind and option; an empty one removes them.

Examples:
  sluice forwards edit crm --url http://127.0.0.1:3005/mcp
  sluice forwards edit crm --deny 'tools:delete_*' --deny 'tools:drop_*'
  sluice forwards edit crm --allow tools: --new tools:enabled`,
    )
    .action(async (argument: string | undefined, options: EditOptions) => {
      const name = requireName(argument, options, 'forward');
      const { url: address, namespace, prefix, proxy, compression } = options;
      const labels = withRemoved(options.label, options.removeLabel);
      const headers = withRemoved(options.header, options.removeHeader);
      const expose = parseExposeOptions(options);
      const changes = {
        address,
        namespace,
        prefix: prefix === '' ? null : prefix,
        labels,
        headers,
        expose,
        proxy: proxy === '' ? null : proxy,
        compression,
      };
      const given = Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined));
      if (Object.keys(given).length === 0) throw new Failure('nothing to change: see "sluice forwards edit --help"');
      const body = await validated(({ forwardPatch }) => forwardPatch, given, 'forward change');
      const client = await context.connect();
      const isNew = await isNewNamespace(client, namespace);
      const call = unwrap(client.PATCH('/api/v1/forwards/{name}', { params: { path: { name } }, body }));
      const changed = await withProgress(context, `changing ${name}`, call);
      const found = changed.available
        ? formatCounts(changed)
        : `not available yet: ${changed.statusMessage ?? 'no reason given'}`;
      context
        .output()
        .done(changed, `changed forward ${name} in ${changed.namespace}${isNew ? NEW_NAMESPACE_NOTE : ''}: ${found}`);
    });
}

/** The changes of a map; undefined if there are none. */
function withRemoved(
  set: Readonly<Record<string, string>> | undefined,
  removed: readonly string[] = [],
): Record<string, string | null> | undefined {
  if (!set && removed.length === 0) return undefined;
  return { ...set, ...Object.fromEntries(removed.map((key) => [key, null])) };
}

function historyCommand(context: Context): Command {
  const command = new Command('history')
    .description('List the changes of availability and the discoveries of a forward, newest first')
    .addHelpText(
      'after',
      `
Example:
  sluice forwards history crm`,
    );
  return addNameOption(command, 'forward').action(async (given: string | undefined, options: NameOption) => {
    const name = requireName(given, options, 'forward');
    const client = await context.connect();
    const changes = await unwrap(client.GET('/api/v1/forwards/{name}/history', { params: { path: { name } } }));
    context.output().list(
      changes,
      [
        { title: 'TIME', value: ({ timestamp }) => timestamp },
        { title: 'CHANGE', value: ({ kind }) => kind, cut: 'never' },
        { title: 'MS', value: (change) => ('duration' in change ? JSON.stringify(change.duration) : '-') },
        { title: 'DETAIL', value: describeChange, cut: 'first' },
      ],
      'no changes since the start of the service',
    );
  });
}

function describeChange(change: ForwardChange): string {
  if (change.kind === 'available') return '';
  if (change.kind !== 'discovered') return change.reason;
  const { tools, resources, prompts, eras, notes } = change;
  const found = `${formatCounts({ tools_discovered: tools, resources_discovered: resources, prompts_discovered: prompts })} (${eras.join(', ')})`;
  return notes === undefined ? found : `${found}; ${notes}`;
}

function refreshCommand(context: Context): Command {
  return addNameOption(
    new Command('refresh').description('Rediscover the tools, resources and prompts of a forward'),
    'forward',
  ).action(async (argument: string | undefined, options: NameOption) => {
    const name = requireName(argument, options, 'forward');
    const client = await context.connect();
    const call = unwrap(client.POST('/api/v1/forwards/{name}/refreshes', { params: { path: { name } } }));
    const refreshed = await withProgress(context, `discovering ${name}`, call);
    context.output().done(refreshed, `refreshed forward ${refreshed.refreshed}: ${formatCounts(refreshed)}`);
  });
}

function removeCommand(context: Context): Command {
  return addNameOption(
    new Command('remove').description('Delete a forward and its discovered entries'),
    'forward',
  ).action(async (argument: string | undefined, options: NameOption) => {
    const name = requireName(argument, options, 'forward');
    const client = await context.connect();
    const removed = await unwrap(client.DELETE('/api/v1/forwards/{name}', { params: { path: { name } } }));
    context.output().done(removed, `removed forward ${removed.removed}`);
  });
}
