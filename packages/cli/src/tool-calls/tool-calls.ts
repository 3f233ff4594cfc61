import { setTimeout as delay } from 'node:timers/promises';
import { TOOL_CALL_EVENT_CAPACITY, type ToolCallErrorCategory, toolCallErrorCategory } from '@sluice/contract';
import { unwrap } from '@sluice/contract/client';
import { ReconnectDelay } from '@sluice/protocol/backoff';
import { Command, Option } from 'commander';
import { explainError, isTransient } from '../connection/explain-error.ts';
import type { Context } from '../context.ts';
import { Failure } from '../failure.ts';
import { IdleTimeoutFailure } from '../http/fetch.ts';
import { sanitizeLine } from '../terminal/text.ts';
import { EVENT_COLUMNS, type EventFilter, matchesFilter } from './event.ts';
import { type EventGap, Watch } from './watch.ts';

/** A connection that has lasted so long was no accident: the next wait is a first one again. */
const SETTLED_MS = 10_000;

/**
 * Prints events as they happen, `latest` of those before them first, until Ctrl-C or until nobody reads them. When the
 * service goes away, it is told on standard error, tried again after 1 s to 30 s, and told what that has cost. Rejects
 * when the service is not there in the beginning, and whenever it refuses.
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
  const say = (text: string) => stderr.write(`sluice: ${sanitizeLine(text)}\n`);
  let trouble: string | undefined;
  const watch = new Watch(context, {
    latest,
    isWanted: (event) => matchesFilter(filter, event),
    onEvent: context.output().lines(EVENT_COLUMNS),
    onBegin: () => say(`following the tool calls at ${host}; Ctrl-C ends it`),
    onResume: (missed) => {
      trouble = undefined;
      say(`connected again; ${describeGap(missed)}`);
    },
  });
  while (!ended.aborted) {
    const since = performance.now();
    const reason = await watch.listen(ended).then(
      () => `${host} has ended the stream`,
      (error: unknown) => {
        if (ended.aborted) return '';
        if (!watch.begun || !isTransient(error, host)) throw error;
        const brokeOff = watch.listening && !(error instanceof IdleTimeoutFailure);
        return brokeOff ? `the connection to ${host} broke off` : explainError(error, host).message;
      },
    );
    if (ended.aborted) return;
    // Once for all attempts that fail alike.
    if (reason !== trouble) say(`${reason} (trying again)`);
    trouble = reason;
    if (watch.listening && performance.now() - since > SETTLED_MS) delays.reset();
    // Rejects when it is ended.
    await delay(delays.next(), undefined, { signal: ended }).catch(() => undefined);
  }
}

/** What a gap has cost. */
function describeGap({ events, complete }: EventGap): string {
  if (complete) return 'no events were missed';
  return events.length >= TOOL_CALL_EVENT_CAPACITY
    ? `events were missed: no more than the latest ${TOOL_CALL_EVENT_CAPACITY} are kept`
    : 'events may have been missed, if the service was started anew';
}

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
