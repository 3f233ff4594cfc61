import type { LoggingLevel } from '@modelcontextprotocol/client';
import { Command, Option } from 'commander';
import type { Context } from '../context.ts';
import type { PromptOptions, ResourceOptions, ToolOptions } from './operations.ts';

/** The severities of log messages, least first. */
export const LOG_LEVELS: readonly LoggingLevel[] = [
  'debug',
  'info',
  'notice',
  'warning',
  'error',
  'critical',
  'alert',
  'emergency',
];

/** `sluice mcp`: talks MCP to any server, in whichever era it speaks (decisions 1.8). */
export function mcpCommand(context: Context): Command {
  const group = new Command('mcp')
    .description('Call tools, read resources and get prompts of any MCP server')
    .addOption(new Option('--uri <url>', 'MCP endpoint URL').conflicts(['namespace', 'mcpUrl']))
    .option('-N, --namespace <name>', 'Namespace of this service to connect to, instead of --uri')
    .option('--mcp-url <url>', 'MCP listener URL (env: SLUICE_MCP_URL; default: --host with port 8081)')
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
    .option('-n, --name <name>', 'Tool name')
    .option(
      '-p, --param <name=value>',
      'Tool argument, @FILE to read the value from a file; may be repeated',
      collectValue,
    )
    .option('--params <json>', 'All arguments as a JSON object, or @FILE')
    .option('--save <folder>', 'Folder to save images, audio and other binary content in')
    .action(async () => {
      const { callTool } = await import('./operations.ts');
      await callTool(context, command.optsWithGlobals<ToolOptions>());
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
    .option('--resource-uri <uri>', 'Resource URI')
    .option('--save <folder>', 'Folder to save binary content in')
    .action(async () => {
      const { readResource } = await import('./operations.ts');
      await readResource(context, command.optsWithGlobals<ResourceOptions>());
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
    .option('-n, --name <name>', 'Prompt name')
    .option(
      '-a, --arg <name=value>',
      'Prompt argument, @FILE to read the value from a file; may be repeated',
      collectValue,
    )
    .action(async () => {
      const { getPrompt } = await import('./operations.ts');
      await getPrompt(context, command.optsWithGlobals<PromptOptions>());
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
