import type { LoggingLevel } from '@modelcontextprotocol/client';
import { Command, Option } from 'commander';
import type { Context } from '../context.ts';
import type { PromptOptions, ResourceOptions, ToolOptions } from './operations.ts';

/** The severities of log messages, least first. */
const LOG_LEVELS: readonly LoggingLevel[] = [
  'debug',
  'info',
  'notice',
  'warning',
  'error',
  'critical',
  'alert',
  'emergency',
];

/** `sluice mcp`: an MCP client for servers of either era. */
export function mcpCommand(context: Context): Command {
  const group = new Command('mcp')
    .description('Call tools, read resources and get prompts of this service or any MCP server')
    .addOption(new Option('--uri <url>', 'URL of another MCP endpoint').conflicts(['namespace', 'mcpUrl']))
    .option('-N, --namespace <name>', 'Namespace of this service to connect to (default: "default")')
    .option('--mcp-url <url>', 'MCP listener URL (env: SLUICE_MCP_URL; default: the port after that of --host)')
    .option('--header <name=value>', 'HTTP header for every request; may be repeated', collectValue)
    .option('--timeout <seconds>', 'Idle timeout in seconds', '60')
    .addOption(
      new Option('--log-level <level>', 'Minimum level of log messages to print').choices(LOG_LEVELS).default('info'),
    )
    .addHelpText(
      'after',
      '\nThe value of --token is sent to the MCP server; stored credentials and SLUICE_TOKEN are not.',
    );
  group.addCommand(toolCommand(context));
  group.addCommand(resourceCommand(context));
  group.addCommand(promptCommand(context));
  return group;
}

function toolCommand(context: Context): Command {
  const command = new Command('tool')
    .description('Call a tool (exit code 1 if it fails)')
    .argument('[tool]', 'Name of the tool; "list" lists the tools')
    .option('-n, --name <tool>', 'Name of the tool, instead of the argument')
    .option(
      '-p, --param <name=value>',
      'Tool argument, @FILE to read the value from a file; may be repeated',
      collectValue,
    )
    .option('--params <json>', 'All arguments as a JSON object, or @FILE')
    .option('--save <folder>', 'Folder to save images, audio and other binary content in')
    .addHelpText(
      'after',
      `
Examples:
  sluice mcp tool echo -p message=hi
  sluice mcp tool echo -p message=hi --uri http://127.0.0.1:3001/mcp`,
    )
    .action(async (argument: string | undefined) => {
      const { callTool } = await import('./operations.ts');
      await callTool(context, argument, command.optsWithGlobals<ToolOptions>());
    });
  const list = new Command('list').description('List tools').action(async () => {
    const { listTools } = await import('./operations.ts');
    await listTools(context, list.optsWithGlobals<ToolOptions>());
  });
  return command.addCommand(list);
}

function resourceCommand(context: Context): Command {
  const command = new Command('resource')
    .description('Read a resource')
    .argument('[uri]', 'Resource URI; "list" lists the resources')
    .option('--resource-uri <uri>', 'Resource URI, instead of the argument')
    .option('--save <folder>', 'Folder to save binary content in')
    .action(async (argument: string | undefined) => {
      const { readResource } = await import('./operations.ts');
      await readResource(context, argument, command.optsWithGlobals<ResourceOptions>());
    });
  const list = new Command('list').description('List resources and resource templates').action(async () => {
    const { listResources } = await import('./operations.ts');
    await listResources(context, list.optsWithGlobals<ResourceOptions>());
  });
  return command.addCommand(list);
}

function promptCommand(context: Context): Command {
  const command = new Command('prompt')
    .description('Get a prompt')
    .argument('[prompt]', 'Name of the prompt; "list" lists the prompts')
    .option('-n, --name <prompt>', 'Name of the prompt, instead of the argument')
    .option(
      '-a, --arg <name=value>',
      'Prompt argument, @FILE to read the value from a file; may be repeated',
      collectValue,
    )
    .action(async (argument: string | undefined) => {
      const { getPrompt } = await import('./operations.ts');
      await getPrompt(context, argument, command.optsWithGlobals<PromptOptions>());
    });
  const list = new Command('list').description('List prompts').action(async () => {
    const { listPrompts } = await import('./operations.ts');
    await listPrompts(context, list.optsWithGlobals<PromptOptions>());
  });
  return command.addCommand(list);
}

function collectValue(value: string, before: readonly string[] = []): readonly string[] {
  return [...before, value];
}
