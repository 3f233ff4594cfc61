import type { Campaign } from './campaign.ts';
import { type SlowReaderResult, slowReaders } from './slow-readers.ts';
import { Soak, type SoakResult } from './soak.ts';
import { quantile } from './tally.ts';

const SESSIONS = 200;
const MINUTES = 5;
const MEGABYTE = 1024 * 1024;

/**
 * Sessions whose calls send server requests: no client may receive messages of another, and after the last session the
 * gateway must not retain any of them. Then clients that stop reading. A round is one minute of the soak.
 */
export const sessionsCampaign: Campaign = {
  name: 'sessions',
  title: `${SESSIONS} sessions with server requests, and clients that stop reading`,
  async run(print, rounds = MINUTES) {
    const soak = await Soak.start();
    try {
      print(`${rounds} min of ${SESSIONS} sessions`);
      const soakResult = await soak.run({
        sessions: SESSIONS,
        warmUpMs: 30_000,
        ms: rounds * 60_000,
        pauseMs: 4_000,
        resetMs: 20_000,
        settleMs: 60_000,
      });
      for (const line of soakResult.failures) print(`  ${line}`);
      print('slow readers');
      const slow = await slowReaders(soak, { readers: 8, messages: 16_000, otherClients: 16, ms: 10_000 });
      for (const line of slow.failures) print(`  ${line}`);
      return {
        passed: soakResult.failures.length + slow.failures.length === 0,
        report: `${soakReport(soakResult, rounds)}\n${slowReport(slow)}`,
      };
    } finally {
      await soak.close();
    }
  },
};

function soakReport(result: SoakResult, minutes: number): string {
  const { tally, before, after, peakRss, upstreamSessions } = result;
  const { instances } = after;
  const remaining = Object.keys(instances).filter((name) => instances[name] !== 0 || before.instances[name] !== 0);
  return table(
    [
      ['minutes, after 30 s of warm-up', minutes],
      ['concurrent sessions; total opened and ended', `${SESSIONS}; ${tally.opened}`],
      ['calls with the responses of their own client', tally.completed],
      ['responses to server requests (form, completion, roots)', tally.serverRequests],
      ['progress and log messages', tally.notifications],
      ['calls canceled by the client', tally.canceled],
      ['connections dropped and resumed', tally.resumed],
      ['calls whose client disconnected or ended the session', tally.disconnected],
      ['clients that stopped reading for a second', tally.paused],
      [
        'session losses of an upstream; calls that failed because of it',
        `${result.sessionResets}; ${tally.sessionLosses}`,
      ],
      ['latency of a call with three server requests, p50 and p99', times(tally.times)],
      ['heap before and after', `${megabytes(before.heap)} and ${megabytes(after.heap)}`],
      ['RSS before, maximum and after', [before.rss, peakRss, after.rss].map(megabytes).join(', ')],
      ['sockets before and after', `${before.sockets} and ${after.sockets}`],
      ['sessions at the upstreams before and after', `${upstreamSessions.before} and ${upstreamSessions.after}`],
      [
        'session and call objects before and after, if not 0',
        remaining.map((name) => `${name} ${before.instances[name]} and ${instances[name]}`).join(', ') || 'none',
      ],
      ['time from the end of the last session until these values', `${(result.settleTimeMs / 1000).toFixed(0)} s`],
    ],
    'messages misrouted or lost, or objects leaked',
    result.failures,
  );
}

function slowReport({ sentBytes, read, rss, calls, failures }: SlowReaderResult): string {
  return table(
    [
      ['data for 8 clients that do not read', megabytes(sentBytes)],
      ['data read from the upstream until backpressure', megabytes(read)],
      ['RSS before and maximum', `${megabytes(rss.before)} and ${megabytes(rss.peak)}`],
      ['calls of 16 other clients before', `${calls.before.count}, ${milliseconds(calls.before)}`],
      ['calls of 16 other clients during', `${calls.during.count}, ${milliseconds(calls.during)}`],
    ],
    'missing backpressure, delayed calls, or lost messages',
    failures,
  );
}

function table(
  rows: readonly (readonly [string, string | number])[],
  last: string,
  failures: readonly string[],
): string {
  const all = [...rows, [`**${last}**`, `**${failures.length}**`]];
  const lines = all.map(([label, value]) => `| ${label} | ${value} |\n`);
  return `| | |\n|---|---|\n${lines.join('')}${failures.map((line) => `- ${line}\n`).join('')}`;
}

function times(values: readonly number[]): string {
  return `${Math.round(quantile(values, 0.5))} ms, ${Math.round(quantile(values, 0.99))} ms`;
}

function milliseconds({ p50, p99, max }: SlowReaderResult['calls']['before']): string {
  return `p50 ${Math.round(p50)} ms, p99 ${Math.round(p99)} ms, max ${Math.round(max)} ms`;
}

function megabytes(bytes: number): string {
  return `${Math.round(bytes / MEGABYTE)} MB`;
}
