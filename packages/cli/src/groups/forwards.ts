import { forwardInput } from '@sluice/contract';
import { payload } from '@sluice/contract/client';
import { Command } from 'commander';
import type { Context } from '../context.ts';
import { collectPair } from '../entries/labels.ts';
import { Failure } from '../failure.ts';
import { checked } from '../files/checked.ts';
import { createProgress } from '../terminal/progress.ts';

/** `sluice forwards` (decisions 1.8). */
export function forwards(context: Context): Command {
  return new Command('forwards')
    .description('upstream MCP servers, whose tools, resources and prompts are offered')
    .addCommand(list(context))
    .addCommand(show(context))
    .addCommand(add(context))
    .addCommand(refresh(context))
    .addCommand(remove(context));
}

interface Counts {
  readonly tools_discovered: number;
  readonly resources_discovered: number;
  readonly prompts_discovered: number;
}

function countsText(counts: Counts): string {
  const { tools_discovered: tools, resources_discovered: resources, prompts_discovered: prompts } = counts;
  return `${tools} tools, ${resources} resources, ${prompts} prompts`;
}

function list(context: Context): Command {
  return new Command('list')
    .description('list the forwards')
    .option('-N, --namespace <namespace>', 'only forwards of this namespace')
    .action(async ({ namespace }: { readonly namespace?: string }) => {
      const client = await context.connect();
      context.output().list(
        await payload(client.GET('/api/v1/forwards', { params: { query: { namespace } } })),
        [
          { title: 'NAME', value: ({ name }) => name },
          { title: 'NAMESPACE', value: ({ namespace }) => namespace },
          { title: 'ADDRESS', value: ({ address }) => address },
          { title: 'AVAILABLE', value: ({ available }) => (available ? 'yes' : 'no') },
          { title: 'TOOLS', value: (forward) => String(forward.tools_discovered) },
          { title: 'RESOURCES', value: (forward) => String(forward.resources_discovered) },
          { title: 'PROMPTS', value: (forward) => String(forward.prompts_discovered) },
          { title: 'STATUS', value: ({ statusMessage = '' }) => statusMessage },
        ],
        'no forwards',
      );
    });
}

/** A forward may be named by `--name` or without it. */
function named(command: Command): Command {
  return command.argument('[forward]', 'its name').option('-n, --name <forward>', 'the same');
}

function nameOf(argument: string | undefined, { name }: { readonly name?: string }): string {
  if (argument !== undefined && name !== undefined) throw new Failure('the forward is named twice: leave out --name');
  const given = argument ?? name;
  if (given === undefined) throw new Failure('which forward? give its name');
  return given;
}

function show(context: Context): Command {
  return named(new Command('show').description('show one forward')).action(
    async (argument: string | undefined, options: { readonly name?: string }) => {
      const name = nameOf(argument, options);
      const client = await context.connect();
      context.output().show(await payload(client.GET('/api/v1/forwards/{name}', { params: { path: { name } } })));
    },
  );
}

interface AddOptions {
  readonly name: string;
  readonly service: string;
  readonly namespace?: string;
  readonly prefix?: string;
  readonly label?: Record<string, string>;
}

function add(context: Context): Command {
  return new Command('add')
    .description('register an upstream MCP server and discover what it offers')
    .requiredOption('-n, --name <name>', 'its name')
    .requiredOption('--service <url>', 'where it is, for example http://127.0.0.1:3001/mcp')
    .option('-N, --namespace <namespace>', 'the namespace that gets what it offers')
    .option('--prefix <prefix>', 'put in front of the names of its tools and prompts')
    .option('-l, --label <key=value>', 'a label; may be repeated', collectPair)
    .addHelpText(
      'after',
      `
Example:
  sluice forwards add --name crm --service http://127.0.0.1:3001/mcp --prefix crm_`,
    )
    .action(async ({ name, service: address, namespace, prefix, label: labels }: AddOptions) => {
      const body = checked(forwardInput, { name, address, namespace, prefix, labels }, 'forward');
      const client = await context.connect();
      const added = await waiting(context, `discovering ${name}`, payload(client.POST('/api/v1/forwards', { body })));
      const found = added.available
        ? countsText(added)
        : `not available yet: ${added.statusMessage ?? 'no reason given'}`;
      context.output().done(added, `added forward ${added.name} to ${added.namespace}: ${found}`);
    });
}

function refresh(context: Context): Command {
  return named(new Command('refresh').description('discover again what a forward offers')).action(
    async (argument: string | undefined, options: { readonly name?: string }) => {
      const name = nameOf(argument, options);
      const client = await context.connect();
      const call = payload(client.POST('/api/v1/forwards/{name}/refreshes', { params: { path: { name } } }));
      const refreshed = await waiting(context, `discovering ${name}`, call);
      context.output().done(refreshed, `refreshed forward ${refreshed.refreshed}: ${countsText(refreshed)}`);
    },
  );
}

function remove(context: Context): Command {
  return named(new Command('remove').description('remove a forward with all that it brought')).action(
    async (argument: string | undefined, options: { readonly name?: string }) => {
      const name = nameOf(argument, options);
      const client = await context.connect();
      const removed = await payload(client.DELETE('/api/v1/forwards/{name}', { params: { path: { name } } }));
      context.output().done(removed, `removed forward ${removed.removed}`);
    },
  );
}

/** Shows on a terminal that something is still going on, and for how long. */
async function waiting<T>(context: Context, what: string, work: Promise<T>): Promise<T> {
  const { stderr } = context.terminal;
  if (!stderr.isTerminal) return work;
  const progress = createProgress(stderr, context.options().plain);
  const started = performance.now();
  const timer = setInterval(() => {
    progress.tell(`${what}, ${Math.round((performance.now() - started) / 1000)} s`);
  }, 250);
  try {
    return await work;
  } finally {
    clearInterval(timer);
    progress.end();
  }
}
