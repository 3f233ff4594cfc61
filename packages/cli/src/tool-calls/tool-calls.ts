import { setTimeout as delay } from 'node:timers/promises';
import { TOOL_CALL_EVENT_CAPACITY, type ToolCallErrorCategory, toolCallErrorCategory } from '@sluice/contract';
import { unwrap } from '@sluice/contract/client';
import { ReconnectDelay } from '@sluice/protocol/timing';
import { Command, Option } from 'commander';
import { explainError, isTransient } from '../connection/explain-error.ts';
import type { Context } from '../context.ts';
import { Failure } from '../failure.ts';
import { IdleTimeoutFailure } from '../http/fetch.ts';
import { sanitizeLine } from '../terminal/text.ts';
import { EVENT_COLUMNS, type EventFilter, matchesFilter } from './event.ts';
import { type EventGap, Watch } from './watch.ts';

/** After a connection that lasted this long, the retry delay starts again. */
const STABLE_CONNECTION_MS = 10_000;

/**
 * Prints events as they happen, preceded by the `latest` ones, until Ctrl-C or until the reader closes. Reconnects
 * after 1 s to 30 s when the service becomes unavailable, and reports missed events. Rejects when the first connection
 * fails, and whenever a request is rejected.
 */
export async function followEvents(
  context: Context,
  filter: EventFilter,
  latest: number | undefined,
  delays: ReconnectDelay = new ReconnectDelay(),
): Promise<void> {
  const { stdout, stderr, interrupted } = context.terminal;
  const { host } = context.options();
  const ended = AbortSignal.any([interrupted, stdout.closed]);
  const printStatus = (text: string) => stderr.write(`sluice: ${sanitizeLine(text)}\n`);
  let lastReason: string | undefined;
  const watch = new Watch(context, {
    latest,
    isWanted: (event) => matchesFilter(filter, event),
    onEvent: context.output().lines(EVENT_COLUMNS, ({ eventId }) => eventId),
    onBegin: () => printStatus(`following tool calls at ${host}; press Ctrl-C to stop`),
    onResume: (missed) => {
      lastReason = undefined;
      printStatus(`reconnected; ${describeGap(missed)}`);
    },
  });
  while (!ended.aborted) {
    const since = performance.now();
    const reason = await watch.listen(ended).then(
      () => `${host} closed the stream`,
      (error: unknown) => {
        if (ended.aborted) return '';
        if (!watch.begun || !isTransient(error, host)) throw error;
        const isConnectionLost = watch.listening && !(error instanceof IdleTimeoutFailure);
        return isConnectionLost ? `the connection to ${host} was lost` : explainError(error, host).message;
      },
    );
    if (ended.aborted) return;
    // Report repeated failures once.
    if (reason !== lastReason) printStatus(`${reason} (retrying)`);
    lastReason = reason;
    if (watch.listening && performance.now() - since > STABLE_CONNECTION_MS) delays.reset();
    // Rejects when aborted.
    await delay(delays.next(), undefined, { signal: ended }).catch(() => undefined);
  }
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

/** `sluice tool-calls`: lists the latest events of tool calls, or follows new ones (decisions 6). */
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
      context.output().list(found, EVENT_COLUMNS, 'no tool calls', { name: ({ eventId }) => eventId });
    });
}

function parseLimit(text: string): number {
  const limit = /^\d+$/.test(text) ? Number(text) : 0;
  if (limit >= 1 && limit <= TOOL_CALL_EVENT_CAPACITY) return limit;
  throw new Failure(`--limit "${text}": expected a number from 1 to ${TOOL_CALL_EVENT_CAPACITY}`);
}
