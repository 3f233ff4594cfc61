import { Command, Option } from 'commander';
import type { Context } from '../context.ts';
import { LOG_LEVELS } from './log-levels.ts';
import type { PromptOptions } from './prompts.ts';
import type { ResourceOptions } from './resources.ts';
import type { ToolOptions } from './tools.ts';

/** `sluice mcp`: talks MCP to any server, in whichever era it speaks (decisions 1.8). */
export function mcp(context: Context): Command {
  const group = new Command('mcp')
    .description('talk MCP to any server: call its tools, read its resources, get its prompts')
    .addOption(new Option('--uri <url>', 'the MCP endpoint').conflicts(['namespace', 'mcpUrl']))
    .option('-N, --namespace <name>', 'the endpoint of a namespace of this service')
    .option('--mcp-url <url>', 'where its MCP listener is; also SLUICE_MCP_URL; default: --host, with port 8081')
    .option('--header <name=value>', 'a header for every request; may be repeated', collect)
    .option('--timeout <seconds>', 'how long the server may be silent', '60')
    .addOption(
      new Option('--log-level <level>', 'the least severity of log messages to tell')
        .choices(LOG_LEVELS)
        .default('info'),
    )
    .addHelpText(
      'after',
      '\nA --token that is given is sent to the server; stored credentials and SLUICE_TOKEN are not.',
    );
  group.addCommand(tool(context));
  group.addCommand(resource(context));
  group.addCommand(prompt(context));
  return group;
}

function tool(context: Context): Command {
  const command = new Command('tool')
    .description('call a tool; exit code 1 when it fails')
    .option('-n, --name <name>', 'the tool')
    .option('-p, --param <name=value>', 'an argument; a value @FILE is read from there; may be repeated', collect)
    .option('--params <json>', 'arguments as a JSON object, or @FILE')
    .option('--save <folder>', 'write images, audio and other binary content to files')
    .action(async () => {
      const { callTool } = await import('./tools.ts');
      await callTool(context, command.optsWithGlobals<ToolOptions>());
    });
  const list = new Command('list').description('list the tools').action(async () => {
    const { listTools } = await import('./tools.ts');
    await listTools(context, list.optsWithGlobals<ToolOptions>());
  });
  return command.addCommand(list);
}

function resource(context: Context): Command {
  const command = new Command('resource')
    .description('read a resource')
    .option('--resource-uri <uri>', 'the resource')
    .option('--save <folder>', 'write binary content to files')
    .action(async () => {
      const { readResource } = await import('./resources.ts');
      await readResource(context, command.optsWithGlobals<ResourceOptions>());
    });
  const list = new Command('list').description('list the resources and their templates').action(async () => {
    const { listResources } = await import('./resources.ts');
    await listResources(context, list.optsWithGlobals<ResourceOptions>());
  });
  return command.addCommand(list);
}

function prompt(context: Context): Command {
  const command = new Command('prompt')
    .description('get a prompt')
    .option('-n, --name <name>', 'the prompt')
    .option('-a, --arg <name=value>', 'an argument; a value @FILE is read from there; may be repeated', collect)
    .action(async () => {
      const { getPrompt } = await import('./prompts.ts');
      await getPrompt(context, command.optsWithGlobals<PromptOptions>());
    });
  const list = new Command('list').description('list the prompts').action(async () => {
    const { listPrompts } = await import('./prompts.ts');
    await listPrompts(context, list.optsWithGlobals<PromptOptions>());
  });
  return command.addCommand(list);
}

function collect(value: string, before: readonly string[] = []): readonly string[] {
  return [...before, value];
}
