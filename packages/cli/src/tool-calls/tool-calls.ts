import { TOOL_CALL_EVENT_CAPACITY, type ToolCallErrorCategory, toolCallErrorCategory } from '@sluice/contract';
import { unwrap } from '@sluice/contract/client';
import { Command, Option } from 'commander';
import type { Context } from '../context.ts';
import { Failure } from '../failure.ts';
import { followEvents } from './follow.ts';
import { EVENT_COLUMNS } from './seen-event.ts';

interface ToolCallsOptions {
  readonly tool?: string;
  readonly category?: ToolCallErrorCategory;
  readonly limit?: number;
  readonly follow?: true;
}

/** `sluice tool-calls`: the latest events of tool calls, or those from now on (decisions 6). */
export function toolCallsCommand(context: Context): Command {
  return new Command('tool-calls')
    .description('List recent tool-call events, newest first, or follow new ones')
    .option('--tool <tool>', 'Only events of this tool')
    .addOption(
      new Option('--category <category>', 'Only failures of this category').choices(toolCallErrorCategory.options),
    )
    .addOption(
      new Option(
        '--limit <number>',
        `Maximum number of events, up to ${TOOL_CALL_EVENT_CAPACITY} (default: 100, none with --follow)`,
      ).argParser(parseLimit),
    )
    .option('-f, --follow', 'Print new events as they happen; with --output json, one object per line')
    .addHelpText(
      'after',
      `
Examples:
  sluice tool-calls --category SERVICE_UNAVAILABLE --limit 20
  sluice tool-calls --follow --tool echo --output json | jq 'select(.duration > 1000)'`,
    )
    .action(async ({ tool, category, limit, follow }: ToolCallsOptions) => {
      if (follow) return followEvents(context, { tool, category }, limit);
      const client = await context.connect();
      const query = { toolName: tool, category, limit: limit?.toString() };
      const found = await unwrap(client.GET('/api/v1/tool-calls', { params: { query } }));
      context.output().list(found, EVENT_COLUMNS, 'no tool calls');
    });
}

function parseLimit(text: string): number {
  const limit = /^\d+$/.test(text) ? Number(text) : 0;
  if (limit >= 1 && limit <= TOOL_CALL_EVENT_CAPACITY) return limit;
  throw new Failure(`--limit "${text}": must be a number from 1 to ${TOOL_CALL_EVENT_CAPACITY}`);
}
