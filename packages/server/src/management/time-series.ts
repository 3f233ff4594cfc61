import { operations, TIME_SERIES_SPAN_S, TIME_SERIES_STEP_S, timeSeriesGrouping } from '@sluice/contract';
import { quoteText } from '@sluice/protocol/text';
import { OperationError } from '../registry/operation-error.ts';
import type { ManagementContext } from './context.ts';
import { arraySlices, dataResponse, streamResponse } from './responses.ts';
import type { Router } from './router.ts';

/** Series that are read and serialized per turn of the event loop: about a millisecond of work. */
const SLICE = 10;

/** `/api/v1/time-series`: the last hour. */
export function timeSeriesRoutes(router: Router, { timeSeries }: ManagementContext): void {
  router.add(operations.observability.timeSeries, ({ query }) => {
    const grouping = timeSeriesGrouping.options.find((known) => known === query('by'));
    const step = parseStep(query('step'));
    const since = parseSince(query('since'), Date.now());
    const reading = timeSeries.read({ since, step, by: grouping });
    if (grouping) {
      const { series, ...rest } = reading;
      const head = `{"data":${JSON.stringify(rest).slice(0, -1)},"series":[`;
      const chunks = arraySlices(head, series, (each) => JSON.stringify(each), ']},"error":null}', SLICE);
      return streamResponse(chunks, { 'content-type': 'application/json' });
    }
    return dataResponse(JSON.stringify({ ...reading, series: [...reading.series] }));
  });
}

const UNIT_MS = { s: 1_000, m: 60_000, h: 3_600_000 } as const;

/** Parses `90s`, `15m`, `1h`, or a number of seconds; undefined for anything else. */
function parseDuration(text: string): number | undefined {
  const [, digits, unit = 's'] = /^(\d{1,6})([smh])?$/.exec(text) ?? [];
  if (digits === undefined) return undefined;
  return Number(digits) * (unit === 'h' ? UNIT_MS.h : unit === 'm' ? UNIT_MS.m : UNIT_MS.s);
}

/** Parses `?step=` into milliseconds; OperationError BAD_REQUEST unless it is a multiple of ten seconds up to an hour. */
function parseStep(text = `${TIME_SERIES_STEP_S}s`): number {
  const ms = parseDuration(text);
  if (ms && ms <= TIME_SERIES_SPAN_S * 1000 && ms % (TIME_SERIES_STEP_S * 1000) === 0) return ms;
  const expected = 'expected a multiple of 10s, up to 1h';
  throw new OperationError('BAD_REQUEST', `invalid step ${quoteText(text, 100)}: ${expected}`);
}

const ISO_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)$/;

/** Parses `?since=` into milliseconds since the Unix epoch; OperationError BAD_REQUEST for other texts. */
function parseSince(text = '1h', now: number): number {
  const ms = parseDuration(text);
  if (ms !== undefined) return now - ms;
  const time = ISO_TIME.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isFinite(time)) return Math.min(time, now);
  const expected = 'expected an ISO 8601 time, or a duration such as 15m';
  throw new OperationError('BAD_REQUEST', `invalid since ${quoteText(text, 100)}: ${expected}`);
}
