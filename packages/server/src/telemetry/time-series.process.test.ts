import { expect, test } from 'vitest';
import { DEFAULT_LOG_FILTER } from '../app/config/environment.ts';
import { createLogger } from './log.ts';
import { RequestMetrics } from './metrics/request-metrics.ts';
import { TimeSeries } from './time-series.ts';
import { ToolCallEvents } from './tool-calls/events.ts';

const START = Date.UTC(2026, 0, 2, 3, 0, 0);
const STEP = 10_000;

test('a sample is taken although the resident memory cannot be read, as without a free file descriptor', () => {
  let now = START;
  let completions = 0;
  const log = createLogger(DEFAULT_LOG_FILTER, () => {});
  const toolCalls = new ToolCallEvents(log, { now: () => now });
  const requests = new RequestMetrics();
  const series = new TimeSeries({ toolCalls, requests, completions: () => completions, now: () => now });
  now += STEP;
  series.sample();
  const failing = () => {
    throw new Error('EMFILE: too many open files, uv_resident_set_memory');
  };
  process.memoryUsage = Object.assign(failing, { rss: failing });
  completions = 3;
  now += STEP;
  series.sample();
  now += STEP;
  const { service } = series.read({ since: START, step: STEP, by: undefined });
  expect(service.completions).toEqual([0, 3, null, null]);
  expect(service.rss_bytes).toEqual([expect.any(Number), expect.any(Number), null, null]);
});
