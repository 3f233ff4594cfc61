import { LOG_CAPACITY, LOG_LEVELS, MAX_LOG_STREAMS, operations } from '@sluice/contract';
import type { Logger, RecentLine } from '../telemetry/log.ts';
import type { ManagementContext } from './context.ts';
import { type EventSource, type EventStream, EventStreams } from './event-stream.ts';
import { listResponse } from './responses.ts';
import { parseLimit, type Router } from './router.ts';

type IsWanted = (line: RecentLine) => boolean;

/** Returns whether a line is at least this severe; all are without a known level. */
function atLeast(level: string | undefined): IsWanted {
  const known = LOG_LEVELS.find((each) => each === level);
  if (known === undefined) return () => true;
  const least = LOG_LEVELS.indexOf(known);
  return (line) => LOG_LEVELS.indexOf(line.level) <= least;
}

/** `/api/v1/logs`: the latest lines of the log of this process, and their stream. */
export function logRoutes(router: Router, { logger: { recent }, openStreams, stateEvents }: ManagementContext): void {
  const { list, notifications } = operations.logs;
  const streams = new EventStreams(openStreams, MAX_LOG_STREAMS);
  const { origin } = stateEvents;

  router.add(list, ({ query }) => {
    const wanted = recent.newestFirst().filter(atLeast(query('level')));
    const found = [...wanted.take(parseLimit(query('limit')) ?? LOG_CAPACITY)].reverse();
    return listResponse(found, ({ line }) => line);
  });

  router.add(notifications, ({ http, caller, query }) => {
    const last = http.headers['last-event-id'];
    const [, process, position] = /^([\w-]{1,32})\.(\d{1,15})$/.exec(typeof last === 'string' ? last : '') ?? [];
    const resumed = process === origin ? Number(position) : undefined;
    const from = resumed ?? recent.end - (parseLimit(query('limit')) ?? 0);
    const isWanted = atLeast(query('level'));
    return streams.respond({ http, caller }, (stream) => logSource(stream, recent, { origin, from, isWanted }));
  });
}

/** Lines of the log for one client. Those that it is too slow for are counted in an event `missed`. */
function logSource(
  stream: EventStream,
  ring: Logger['recent'],
  { origin, from, isWanted }: { readonly origin: string; readonly from: number; readonly isWanted: IsWanted },
): EventSource {
  let missed = 0;
  const listener = {
    ready: () => stream.ready(),
    overflow: () => {
      missed += cursor.skip();
    },
  };
  const cursor = ring.listen(listener, Math.min(Math.max(from, ring.start), ring.end));
  return {
    next() {
      if (missed > 0) {
        const data = JSON.stringify({ count: missed });
        missed = 0;
        return Buffer.from(`event: missed\ndata: ${data}\n\n`);
      }
      for (let line = cursor.next(); line; line = cursor.next()) {
        if (isWanted(line)) return Buffer.from(`id: ${origin}.${cursor.position}\ndata: ${line.line}\n\n`);
      }
      return undefined;
    },
    close: () => cursor.close(),
  };
}
