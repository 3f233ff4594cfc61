import type { Prompt } from '@sluice/contract';
import { payload } from '@sluice/contract/client';
import { isJsonObject } from '@sluice/json/lossless';
import { Command } from 'commander';
import type { Context } from '../context.ts';
import { removeCommand, showCommand } from '../entries/commands.ts';
import { type EditOptions, edit } from '../entries/edit.ts';
import { PROMPT } from '../entries/kinds.ts';
import { labelCommand } from '../entries/label-command.ts';
import { collectPair } from '../entries/labels.ts';
import { addListOptions, type ListOptions, listQuery, shadowedColumn } from '../entries/listing.ts';
import { addSelection } from '../entries/selection.ts';
import { Failure } from '../failure.ts';

/** `sluice prompts` (decisions 1.8). */
export function prompts(context: Context): Command {
  return new Command('prompts')
    .description('prompt templates for agents')
    .addCommand(list(context))
    .addCommand(showCommand(context, PROMPT))
    .addCommand(add(context))
    .addCommand(editCommand(context))
    .addCommand(removeCommand(context, PROMPT))
    .addCommand(labelCommand(context, PROMPT));
}

function list(context: Context): Command {
  const command = new Command('list').description('list the prompts');
  return addListOptions(command, 'prompts').action(async (options: ListOptions) => {
    const client = await context.connect();
    const found = await payload(client.GET('/api/v1/prompts', { params: { query: listQuery(options) } }));
    context
      .output()
      .list(
        found,
        [
          { title: 'NAME', value: ({ name }) => name },
          { title: 'NAMESPACE', value: ({ namespace }) => namespace },
          { title: 'ARGUMENTS', value: (prompt) => prompt.arguments.map(argumentText).join(', ') || '-' },
          { title: 'FORWARD', value: ({ forward = '-' }) => forward },
          ...shadowedColumn<Pick<Prompt, 'shadowed'>>(options),
          { title: 'DESCRIPTION', value: ({ description }) => description },
        ],
        'no prompts',
      );
  });
}

/** An argument's name; a question mark behind one that is optional. */
function argumentText(argument: unknown): string {
  if (!isJsonObject(argument) || typeof argument.name !== 'string') return '?';
  return argument.required === true ? argument.name : `${argument.name}?`;
}

interface Fields {
  readonly name?: string;
  readonly description?: string;
  readonly message?: readonly object[];
  readonly argument?: readonly object[];
  readonly label?: Readonly<Record<string, string>>;
}

function addFields(command: Command): Command {
  return command
    .option('-n, --name <name>', 'its name')
    .option('-d, --description <text>', 'what it is for')
    .option('-m, --message <role:text>', 'a message, of user, assistant or system; may be repeated', collectMessage)
    .option('-a, --argument <name:description[:required]>', 'an argument; may be repeated', collectArgument)
    .option('-l, --label <key=value>', 'a label; may be repeated', collectPair);
}

/** A prompt's body: the given one with the fields over it. Labels are added to what is there, all else replaces it. */
function withFields(prompt: Readonly<Record<string, unknown>>, fields: Fields): object {
  const { name, description, message, argument, label } = fields;
  const labels = typeof prompt.labels === 'object' ? prompt.labels : {};
  return {
    ...prompt,
    ...(name !== undefined && { name }),
    ...(description !== undefined && { description }),
    ...(message && { messages: message }),
    ...(argument && { arguments: argument }),
    ...(label && { labels: { ...labels, ...label } }),
  };
}

function collectMessage(text: string, so: readonly object[] = []): object[] {
  const [, role, content] = /^(user|assistant|system):(.*)$/s.exec(text) ?? [];
  if (role === undefined) throw new Failure(`-m ${text}: must be role:text with a role of user, assistant, system`);
  return [...so, { role, content }];
}

function collectArgument(text: string, so: readonly object[] = []): object[] {
  const [, name, description = '', required] = /^([^:]+)(?::(.*?))?(:required)?$/s.exec(text) ?? [];
  if (name === undefined) throw new Failure(`-a ${text}: must be name:description, with :required behind it if it is`);
  return [...so, { name, description, required: required !== undefined }];
}

function add(context: Context): Command {
  return addFields(new Command('add').description('register a prompt by hand'))
    .option('-N, --namespace <namespace>', 'the namespace to put it in')
    .addHelpText(
      'after',
      `
Example:
  sluice prompts add -n greet -m "user:Say hello to {who}." -a "who:Whom to greet:required"`,
    )
    .action(async ({ namespace, ...fields }: Fields & { readonly namespace?: string }) => {
      const client = await context.connect();
      const added = await PROMPT.create(client, withFields(namespace === undefined ? {} : { namespace }, fields));
      context.output().done(added, `added prompt ${added.name} in ${added.namespace}`);
    });
}

interface PromptEditOptions extends EditOptions, Fields {
  readonly moveTo?: string;
}

function editCommand(context: Context): Command {
  const command = new Command('edit')
    .description('change a prompt: by the fields given, by a file, or in your editor')
    .argument('<prompt>', 'its name');
  return addSelection(addFields(command), 'prompt')
    .option('--move-to <namespace>', 'another namespace to put it in')
    .option('-f, --file <file>', 'the whole prompt (JSON or YAML), "-" for standard input')
    .action((name: string, { namespace, file, moveTo, ...fields }: PromptEditOptions) => {
      const given = Object.keys(fields).length > 0 || moveTo !== undefined;
      const change = (entry: Readonly<Record<string, unknown>>) =>
        withFields(moveTo === undefined ? entry : { ...entry, namespace: moveTo }, fields);
      return edit(
        context,
        PROMPT,
        name,
        { namespace, ...(file !== undefined && { file }) },
        given ? change : undefined,
      );
    });
}
