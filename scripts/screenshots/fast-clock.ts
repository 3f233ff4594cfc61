/**
 * Loaded with `--import`: an hour passes within the first `FAST_CLOCK_MS` of the process, and ends at the time of the machine,
 * so that the service has a past. Timers keep their time, except the one that samples the time series.
 */

const FAST_MS = Number(process.env.FAST_CLOCK_MS);
const HOUR_MS = 3_600_000;
const FACTOR = HOUR_MS / FAST_MS;

const RealDate = Date;
const startedAt = RealDate.now();

function now(): number {
  const real = RealDate.now();
  const remaining = Math.max(0, FAST_MS - (real - startedAt));
  return Math.round(real - remaining * (FACTOR - 1));
}

function isFast(): boolean {
  return RealDate.now() - startedAt < FAST_MS;
}

class FastDate extends RealDate {
  constructor(value: string | number | Date = now()) {
    super(value);
  }

  static override now(): number {
    return now();
  }
}

const { setTimeout: realTimeout } = globalThis;
const fastTimeout = (run: (...args: unknown[]) => void, ms = 0, ...args: unknown[]) => {
  const isSampler = isFast() && new Error().stack?.includes('/telemetry/time-series.ts') === true;
  return realTimeout(run, isSampler ? ms / FACTOR : ms, ...args);
};

Object.assign(globalThis, { Date: FastDate, setTimeout: Object.assign(fastTimeout, realTimeout) });
