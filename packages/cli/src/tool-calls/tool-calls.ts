import { KEPT_TOOL_CALL_EVENTS, type ToolCallErrorCategory, toolCallErrorCategory } from '@sluice/contract';
import { payload } from '@sluice/contract/client';
import { Command, Option } from 'commander';
import type { Context } from '../context.ts';
import { Failure } from '../failure.ts';
import { follow } from './follow.ts';
import { EVENT_COLUMNS } from './seen-event.ts';

interface Options {
  readonly tool?: string;
  readonly category?: ToolCallErrorCategory;
  readonly limit?: number;
  readonly follow?: true;
}

/** `sluice tool-calls`: the latest events of tool calls, or those from now on (decisions 6). */
export function toolCalls(context: Context): Command {
  return new Command('tool-calls')
    .description('list the latest events of tool calls, newest first, or follow them')
    .option('--tool <tool>', 'only events of this tool')
    .addOption(
      new Option('--category <category>', 'only calls that failed in this way').choices(toolCallErrorCategory.options),
    )
    .addOption(
      new Option(
        '--limit <number>',
        `how many at most, up to ${KEPT_TOOL_CALL_EVENTS}; default: 100; with --follow, how many of the latest to begin with: none`,
      ).argParser(limitOf),
    )
    .option('-f, --follow', 'print events as they happen, until Ctrl-C; with --output json, an object per line')
    .addHelpText(
      'after',
      `
Examples:
  sluice tool-calls --category SERVICE_UNAVAILABLE --limit 20
  sluice tool-calls --follow --tool echo --output json | jq 'select(.duration > 1000)'`,
    )
    .action(async ({ tool, category, limit, follow: following }: Options) => {
      if (following) return follow(context, { tool, category }, limit);
      const client = await context.connect();
      const query = { toolName: tool, category, limit: limit?.toString() };
      const found = await payload(client.GET('/api/v1/tool-calls', { params: { query } }));
      context.output().list(found, EVENT_COLUMNS, 'no tool calls');
    });
}

function limitOf(text: string): number {
  const limit = /^\d+$/.test(text) ? Number(text) : 0;
  if (limit >= 1 && limit <= KEPT_TOOL_CALL_EVENTS) return limit;
  throw new Failure(`--limit "${text}": must be a number from 1 to ${KEPT_TOOL_CALL_EVENTS}`);
}
