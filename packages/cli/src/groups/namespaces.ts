import type { Namespace, ViewEntry } from '@sluice/contract';
import { type Client, unwrap, unwrapPage } from '@sluice/contract/client';
import { Command, Option } from 'commander';
import type { Context } from '../context.ts';
import { NAMESPACE_API } from '../entries/entry-api.ts';
import { labelCommand, showCommand } from '../entries/entry-commands.ts';
import {
  addNameOption,
  collectKeyValue,
  formatLabels,
  type NameOption,
  requireName,
} from '../entries/entry-options.ts';
import { addPageOptions, listPages, noteOmitted, type PageOptions } from '../entries/list-pages.ts';
import { validated } from '../files/document.ts';
import { resolveEndpoint } from '../mcp/target.ts';
import { sanitizeLine } from '../terminal/text.ts';

/** `sluice namespaces`. */
export function namespacesCommand(context: Context): Command {
  return new Command('namespaces')
    .description('Manage namespaces (one MCP endpoint each)')
    .addCommand(listCommand(context))
    .addCommand(showCommand(context, NAMESPACE_API))
    .addCommand(viewCommand(context))
    .addCommand(createCommand(context))
    .addCommand(removeCommand(context))
    .addCommand(labelCommand(context, NAMESPACE_API));
}

function listCommand(context: Context): Command {
  return new Command('list').description('List namespaces').action(async () => {
    const client = await context.connect();
    const output = context.output();
    const namespaces = await unwrap(client.GET('/api/v1/namespaces'));
    // In other formats it is the list of the API.
    const rows = output.format === 'table' ? await withUse(client, namespaces) : namespaces;
    output.list<NamespaceRow>(
      rows,
      [
        { title: 'NAME', value: ({ name }) => name, cut: 'never' },
        { title: 'URL', value: ({ name, mcpUrl }) => urlOf(context, name, mcpUrl), cut: 'never' },
        { title: 'TOOLS', value: ({ tools }) => String(tools ?? '-') },
        { title: 'CALLS (1 H)', value: ({ calls }) => String(calls ?? '-') },
        { title: 'LABELS', value: ({ labels }) => formatLabels(labels) || '-' },
      ],
      'no namespaces',
    );
  });
}

interface NamespaceRow extends Namespace {
  readonly tools?: number;
  /** Tool calls of the last hour. */
  readonly calls?: number;
}

/** Adds the numbers of tools and calls. */
async function withUse(client: Client, namespaces: readonly Namespace[]): Promise<readonly NamespaceRow[]> {
  const query = { since: '1h', step: '1h', by: 'namespace' as const };
  const calls = new Map(
    (await unwrap(client.GET('/api/v1/time-series', { params: { query } }))).series.map(({ labels, calls: counts }) => [
      labels.namespace,
      counts.reduce((total, count) => total + count, 0),
    ]),
  );
  const rows: NamespaceRow[] = [];
  for (const namespace of namespaces) {
    const { name } = namespace;
    const { page } = await unwrapPage(
      client.GET('/api/v1/tools', { params: { query: { namespace: name, limit: '1' } } }),
    );
    rows.push({ ...namespace, calls: calls.get(name) ?? 0, ...(page && { tools: page.total }) });
  }
  return rows;
}

/** URL of the MCP endpoint: the published one, or the one on the machine of the management API. */
function urlOf({ options, terminal }: Context, namespace: string, published: string | undefined): string {
  return resolveEndpoint({ namespace, published }, options().host, terminal.env).href;
}

interface ViewOptions extends NameOption, PageOptions {
  readonly era?: 'modern' | 'legacy';
  readonly capabilities?: string;
}

function viewCommand(context: Context): Command {
  const command = addNameOption(new Command('view'), 'namespace')
    .description('List what a client of a namespace is offered, and what it is not, with the source of each entry')
    .addOption(new Option('--era <era>', 'Era of the client').choices(['modern', 'legacy']).default('modern'))
    .option('--capabilities <json>', 'Capabilities of the client, as JSON (default: none)')
    .addHelpText(
      'after',
      `
Example:
  sluice namespaces view finance --era legacy --capabilities '{"sampling":{}}'`,
    );
  return addPageOptions(command, 'entries').action(async (argument: string | undefined, options: ViewOptions) => {
    const name = requireName(argument, options, 'namespace');
    const { era, capabilities } = options;
    const client = await context.connect();
    const listed = await listPages(options, (query) =>
      unwrapPage(
        client.GET('/api/v1/namespaces/{name}/view', {
          params: { path: { name }, query: { era, capabilities, ...query } },
        }),
      ),
    );
    context.output().list(
      listed.rows,
      [
        { title: 'KIND', value: ({ kind }) => kind },
        { title: 'NAME', value: ({ key }) => key, cut: 'never' },
        { title: 'OFFERED', value: ({ offered, reason = 'no' }) => (offered ? 'yes' : `no: ${reason}`) },
        { title: 'SOURCE', value: ({ source }) => describeSource(source) },
        { title: 'OVERRIDES', value: ({ overrides }) => overrides.join(', ') || '-' },
        { title: 'SHADOWS', value: ({ shadows = [] }) => shadows.map(describeSource).join(', ') || '-' },
      ],
      'no entries',
    );
    noteOmitted(context, listed, 'entries');
  });
}

function describeSource(source: ViewEntry['source']): string {
  if (source.kind === 'manual') return source.type === undefined ? 'manual' : `manual: ${source.type}`;
  const { forward, upstreamKey, copied } = source;
  return `${copied ? 'copy of ' : ''}${forward}: ${upstreamKey}`;
}

function createCommand(context: Context): Command {
  return addNameOption(new Command('create'), 'namespace')
    .description('Create a namespace (no-op if it already exists)')
    .option('-l, --label <key=value>', 'Label; may be repeated', collectKeyValue)
    .action(async (argument: string | undefined, options: NameOption & { readonly label?: Record<string, string> }) => {
      const name = requireName(argument, options, 'namespace');
      const { label: labels } = options;
      const body = await validated(({ namespaceInput }) => namespaceInput, { name, labels }, 'namespace');
      const client = await context.connect();
      const call = client.POST('/api/v1/namespaces', { body });
      const created = await unwrap(call);
      const { response } = await call;
      const sentence = response.status === 201 ? `created namespace ${name}` : `namespace ${name} already exists`;
      context.output().done(created, sentence);
      if (created.name === 'public') {
        context.terminal.stderr.write(
          'warning: authenticating proxies usually let the path /public/ through without authentication\n',
        );
      }
    });
}

function removeCommand(context: Context): Command {
  return addNameOption(new Command('delete'), 'namespace')
    .description('Delete a namespace')
    .option('--cascade', 'Delete all tools, resources, prompts and forwards in it too')
    .action(async (argument: string | undefined, options: NameOption & { readonly cascade?: true }) => {
      const name = requireName(argument, options, 'namespace');
      const { cascade } = options;
      const client = await context.connect();
      const removed = await unwrap(
        client.DELETE('/api/v1/namespaces/{name}', {
          params: { path: { name }, query: { ...(cascade && { cascade: 'true' as const }) } },
        }),
      );
      context.output().done(removed, `deleted namespace ${removed.removed}`);
      const { disabled = [] } = removed;
      if (disabled.length === 0) return;
      const names = disabled.map(({ kind, name: entry, namespace }) => `${kind} ${entry} in ${namespace}`);
      const text = `disabled, because they had been moved to ${name}: ${names.join(', ')}`;
      context.terminal.stderr.write(`${sanitizeLine(text)}\n`);
    });
}
