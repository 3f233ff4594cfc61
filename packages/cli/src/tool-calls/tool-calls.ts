import type { ToolCallErrorCategory } from '@sluice/contract';
import { unwrap } from '@sluice/contract/client';
import { TOOL_CALL_ERROR_CATEGORIES, TOOL_CALL_EVENT_CAPACITY } from '@sluice/contract/values';
import type { ReconnectDelay } from '@sluice/protocol/timing';
import { Command, Option } from 'commander';
import { followStream, printStatus } from '../connection/follow.ts';
import type { Context } from '../context.ts';
import { Failure } from '../failure.ts';
import { EVENT_COLUMNS, type EventFilter, matchesFilter } from './event.ts';
import { type EventGap, Watch } from './watch.ts';

/**
 * Prints events as they happen, preceded by the `latest` ones, until Ctrl-C or until the reader closes, and reports missed
 * events. Rejects like {@link followStream}.
 */
export async function followEvents(
  context: Context,
  filter: EventFilter,
  latest: number | undefined,
  delays?: ReconnectDelay,
): Promise<void> {
  const { host } = context.options();
  const watch = new Watch(context, {
    latest,
    isWanted: (event) => matchesFilter(filter, event),
    onEvent: context.output().lines(EVENT_COLUMNS, ({ eventId }) => eventId),
    onBegin: () => printStatus(context, `following tool calls at ${host}; press Ctrl-C to stop`),
    onResume: (missed) => printStatus(context, `reconnected; ${describeGap(missed)}`),
  });
  await followStream(context, watch, delays);
}

/** Describes the events missed during a gap. */
function describeGap({ events, complete }: EventGap): string {
  if (complete) return 'no events were missed';
  return events.length >= TOOL_CALL_EVENT_CAPACITY
    ? `events were missed: only the latest ${TOOL_CALL_EVENT_CAPACITY} are available`
    : 'events may have been missed if the service was restarted';
}

interface ToolCallsOptions {
  readonly tool?: string;
  readonly category?: ToolCallErrorCategory;
  readonly limit?: number;
  readonly follow?: true;
}

/** `sluice tool-calls`: lists the latest events of tool calls, or follows new ones. */
export function toolCallsCommand(context: Context): Command {
  return new Command('tool-calls')
    .description('List recent tool-call events, newest first, or follow new ones')
    .option('--tool <tool>', 'Only events of this tool')
    .addOption(
      new Option('--category <category>', 'Only failures of this category').choices(TOOL_CALL_ERROR_CATEGORIES),
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
      context.output().list(found, EVENT_COLUMNS, 'no tool calls', { name: ({ eventId }) => eventId });
    });
}

function parseLimit(text: string): number {
  const limit = /^\d+$/.test(text) ? Number(text) : 0;
  if (limit >= 1 && limit <= TOOL_CALL_EVENT_CAPACITY) return limit;
  throw new Failure(`--limit "${text}": expected a number from 1 to ${TOOL_CALL_EVENT_CAPACITY}`);
}
