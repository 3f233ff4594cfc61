import { setTimeout as delay } from 'node:timers/promises';
import { TOOL_CALL_EVENT_CAPACITY } from '@sluice/contract';
import { ReconnectDelay } from '@sluice/protocol/backoff';
import { explainError } from '../connection/explain.ts';
import { isTransient } from '../connection/temporary.ts';
import type { Context } from '../context.ts';
import { IdleTimeoutFailure } from '../http/silence.ts';
import { sanitizeLine } from '../terminal/harmless.ts';
import type { EventGap } from './bookmark.ts';
import { type EventFilter, matchesFilter } from './event-filter.ts';
import { EVENT_COLUMNS } from './seen-event.ts';
import { Watch } from './watch.ts';

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
