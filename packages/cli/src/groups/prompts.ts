import { unwrapPage } from '@sluice/contract/client';
import { isJsonObject } from '@sluice/protocol/json/parse';
import type { Command } from 'commander';
import type { Context } from '../context.ts';
import { PROMPT_API } from '../entries/entry-api.ts';
import { type EntryKind, entryGroup, type ListRow } from '../entries/entry-group.ts';
import { Failure } from '../failure.ts';

/** `sluice prompts`. */
export function promptsCommand(context: Context): Command {
  return entryGroup(context, PROMPT);
}

interface PromptFields {
  readonly name?: string;
  readonly description?: string;
  readonly message?: readonly object[];
  readonly argument?: readonly object[];
}

type PromptRow = ListRow & { readonly arguments: readonly unknown[] };

const PROMPT: EntryKind<PromptRow, PromptFields> = {
  ...PROMPT_API,
  description: 'Manage prompts',
  list: (client, query) => unwrapPage(client.GET('/api/v1/prompts', { params: { query } })),
  columns: [{ title: 'ARGUMENTS', value: (prompt) => prompt.arguments.map(formatArgument).join(', ') || '-' }],
  addFieldOptions: (command) =>
    command
      .option('-n, --name <name>', 'Prompt name')
      .option('-d, --description <text>', 'Prompt description')
      .option('-m, --message <role:text>', 'Message of user, assistant or system; may be repeated', collectMessage)
      .option('-a, --argument <name:description[:required]>', 'Prompt argument; may be repeated', collectArgument),
  applyFields: (prompt, { name, description, message, argument }) => ({
    ...prompt,
    ...(name !== undefined && { name }),
    ...(description !== undefined && { description }),
    ...(message && { messages: message }),
    ...(argument && { arguments: argument }),
  }),
  addHelp: `Example:
  sluice prompts add -n greet -m "user:Say hello to {who}." -a "who:Whom to greet:required"`,
};

/** Name of an argument, with a question mark when it is optional. */
function formatArgument(argument: unknown): string {
  if (!isJsonObject(argument) || typeof argument.name !== 'string') return '?';
  return argument.required === true ? argument.name : `${argument.name}?`;
}

function collectMessage(text: string, so: readonly object[] = []): object[] {
  const [, role, content] = /^(user|assistant|system):(.*)$/s.exec(text) ?? [];
  if (role === undefined) throw new Failure(`-m ${text}: expected role:text with the role user, assistant or system`);
  return [...so, { role, content }];
}

function collectArgument(text: string, so: readonly object[] = []): object[] {
  const [, name, description = '', required] = /^([^:]+)(?::(.*?))?(:required)?$/s.exec(text) ?? [];
  if (name === undefined) throw new Failure(`-a ${text}: expected name:description[:required]`);
  return [...so, { name, description, required: required !== undefined }];
}
