import type { Context } from '../context.ts';
import { Failure } from '../failure.ts';
import { sanitizeLine } from '../terminal/harmless.ts';
import { promptArguments } from './arguments.ts';
import { formatBlock } from './content.ts';
import { withSession } from './session.ts';
import type { TargetOptions } from './target.ts';

/** Options of `sluice mcp prompt`. */
export interface PromptOptions extends TargetOptions {
  readonly name?: string;
  readonly arg?: readonly string[];
}

/** Gets a prompt and prints its messages, each below who says it. */
export async function getPrompt(context: Context, options: PromptOptions): Promise<void> {
  const { name } = options;
  if (name === undefined) throw new Failure('which prompt? Give --name, or see them all: sluice mcp prompt list');
  const args = await promptArguments(options.arg ?? [], context.terminal.cwd);
  const result = await withSession(context, options, ({ client, request, meta }) =>
    client.getPrompt({ name, arguments: args, _meta: meta }, request),
  );
  const output = context.output();
  if (output.format === 'json') return output.json(result);
  for (const { role, content } of result.messages) {
    context.terminal.stdout.write(`${sanitizeLine(role)}:\n${await formatBlock(content, undefined)}\n`);
  }
}

/** Prints the prompts that the server offers. */
export async function listPrompts(context: Context, options: TargetOptions): Promise<void> {
  const { prompts } = await withSession(context, options, ({ client, request }) =>
    client.listPrompts(undefined, request),
  );
  context.output().list(
    prompts,
    [
      { title: 'NAME', value: ({ name }) => name, cut: 'never' },
      {
        title: 'ARGUMENTS',
        value: ({ arguments: args = [] }) =>
          args.map(({ name, required }) => (required ? `${name}*` : name)).join(', '),
      },
      { title: 'DESCRIPTION', value: ({ title, description }) => description ?? title ?? '', cut: 'first' },
    ],
    'no prompts',
  );
}
