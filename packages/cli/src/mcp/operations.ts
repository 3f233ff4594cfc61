import { isDeepStrictEqual } from 'node:util';
import type { CallToolResult, Tool } from '@modelcontextprotocol/client';
import { tryParseJson } from '@sluice/protocol/json/parse';
import type { Context } from '../context.ts';
import { Exit, Failure } from '../failure.ts';
import { sanitizeJson, sanitizeLine } from '../terminal/text.ts';
import { promptArguments, toolArguments } from './arguments.ts';
import { createSaver, formatBlock, formatContents, type Saver } from './content.ts';
import { withSession } from './session.ts';
import type { TargetOptions } from './target.ts';

/** Options of `sluice mcp tool`. */
export interface ToolOptions extends TargetOptions {
  readonly name?: string;
  readonly param?: readonly string[];
  readonly params?: string;
  readonly save?: string;
}

/** Returns the name of a tool or prompt, or the URI of a resource. Throws {@link Failure} when none or two are given. */
function requireTarget(
  kind: 'tool' | 'resource' | 'prompt',
  argument: string | undefined,
  option: string | undefined,
): string {
  const [what, flag] = kind === 'resource' ? ['URI', '--resource-uri'] : ['name', '--name'];
  if (argument !== undefined && option !== undefined) {
    throw new Failure(`the ${what} of the ${kind} is given twice: omit ${flag}`);
  }
  const given = argument ?? option;
  if (given !== undefined) return given;
  throw new Failure(`missing ${what} of the ${kind}: run "sluice mcp ${kind} list" to list the ${kind}s`);
}

/** Calls a tool and prints its result. Throws `Exit` 1 when the result is an error. */
export async function callTool(context: Context, argument: string | undefined, options: ToolOptions): Promise<void> {
  const name = requireTarget('tool', argument, options.name);
  const { cwd } = context.terminal;
  const save = createSaver(options.save, context);
  const result = await withSession(context, options, async ({ client, request, meta }) => {
    // The schema determines which arguments are strings; the client needs the whole list, because some arguments become
    // headers.
    const { tools } = await client.listTools(undefined, request);
    const tool = tools.find((candidate) => candidate.name === name);
    const args = await toolArguments(options.param ?? [], options.params, tool?.inputSchema, cwd);
    // The tool need not be listed: the server decides what can be called.
    return client.callTool({ name, arguments: args, _meta: meta }, request);
  });
  const output = context.output();
  if (output.isStructured) output.payload(result);
  else context.terminal.stdout.write(await formatResult(result, save));
  if (result.isError === true) throw new Exit(1);
}

/** Prints the tools of the server. */
export async function listTools(context: Context, options: TargetOptions): Promise<void> {
  const { tools } = await withSession(context, options, ({ client, request }) => client.listTools(undefined, request));
  context.output().list(
    tools,
    [
      { title: 'NAME', value: ({ name }) => name, cut: 'never' },
      { title: 'PARAMS', value: parameters },
      {
        title: 'DESCRIPTION',
        cut: 'first',
        value: ({ title, annotations, description }) => description ?? title ?? annotations?.title ?? '',
      },
    ],
    'no tools',
  );
}

async function formatResult({ content, structuredContent }: CallToolResult, save: Saver | undefined): Promise<string> {
  const parts: string[] = [];
  for (const block of content) {
    // Servers repeat structured content as text for older clients.
    const same =
      block.type === 'text' &&
      structuredContent !== undefined &&
      isDeepStrictEqual(tryParseJson(block.text), structuredContent);
    if (!same) parts.push(await formatBlock(block, save));
  }
  if (structuredContent !== undefined) parts.push(sanitizeJson(JSON.stringify(structuredContent, null, 2)));
  return parts.map((part) => (part.endsWith('\n') ? part : `${part}\n`)).join('');
}

/** Names of the parameters; required ones have an asterisk. */
function parameters({ inputSchema }: Tool): string {
  return Object.keys(inputSchema.properties ?? {})
    .map((name) => (inputSchema.required?.includes(name) ? `${name}*` : name))
    .join(', ');
}

/** Options of `sluice mcp resource`. */
export interface ResourceOptions extends TargetOptions {
  readonly resourceUri?: string;
  readonly save?: string;
}

/** Reads a resource and prints its contents. */
export async function readResource(
  context: Context,
  argument: string | undefined,
  options: ResourceOptions,
): Promise<void> {
  const uri = requireTarget('resource', argument, options.resourceUri);
  const save = createSaver(options.save, context);
  const result = await withSession(context, options, ({ client, request, meta }) =>
    client.readResource({ uri, _meta: meta }, request),
  );
  const output = context.output();
  if (output.isStructured) return output.payload(result);
  const { stdout } = context.terminal;
  for (const contents of result.contents) {
    const text = await formatContents(contents, save);
    stdout.write(text.endsWith('\n') ? text : `${text}\n`);
  }
}

/** Prints the resources and resource templates of the server. */
export async function listResources(context: Context, options: TargetOptions): Promise<void> {
  const lists = await withSession(context, options, async ({ client, request }) => {
    const { resources } = await client.listResources(undefined, request);
    const { resourceTemplates } = await client.listResourceTemplates(undefined, request);
    return { resources, resourceTemplates };
  });
  context.output().list(
    [
      ...lists.resources.map((resource) => ({ ...resource, kind: 'resource' })),
      ...lists.resourceTemplates.map((template) => ({ ...template, uri: template.uriTemplate, kind: 'template' })),
    ],
    [
      { title: 'URI', value: ({ uri }) => uri },
      { title: 'KIND', value: ({ kind }) => kind },
      { title: 'TYPE', value: ({ mimeType }) => mimeType ?? '' },
      { title: 'NAME', value: ({ name }) => name, cut: 'never' },
      { title: 'DESCRIPTION', value: ({ title, description }) => description ?? title ?? '', cut: 'first' },
    ],
    'no resources',
    { payload: lists },
  );
}

/** Options of `sluice mcp prompt`. */
export interface PromptOptions extends TargetOptions {
  readonly name?: string;
  readonly arg?: readonly string[];
}

/** Gets a prompt and prints its messages with their roles. */
export async function getPrompt(context: Context, argument: string | undefined, options: PromptOptions): Promise<void> {
  const name = requireTarget('prompt', argument, options.name);
  const args = await promptArguments(options.arg ?? [], context.terminal.cwd);
  const result = await withSession(context, options, ({ client, request, meta }) =>
    client.getPrompt({ name, arguments: args, _meta: meta }, request),
  );
  const output = context.output();
  if (output.isStructured) return output.payload(result);
  for (const { role, content } of result.messages) {
    context.terminal.stdout.write(`${sanitizeLine(role)}:\n${await formatBlock(content, undefined)}\n`);
  }
}

/** Prints the prompts of the server. */
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
