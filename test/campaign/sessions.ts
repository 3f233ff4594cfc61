import type { Campaign } from './campaign.ts';
import { type SlowReaderResult, slowReaders } from './slow-reader.ts';
import { Soak, type SoakResult } from './soak.ts';
import { quantile } from './witness.ts';

const SESSIONS = 200;
const MINUTES = 5;
const MEGABYTE = 1024 * 1024;

/**
 * Sessions whose calls ask their clients: nobody may get what another has caused, and when all are over the gateway must
 * hold nothing of them. Then readers that do not read. A round is one minute of the soak.
 */
export const sessionsCampaign: Campaign = {
  name: 'sessions',
  title: `${SESSIONS} sessions whose calls ask their clients, and readers that do not read`,
  async run(print, rounds = MINUTES) {
    const soak = await Soak.start();
    try {
      print(`${rounds} min of ${SESSIONS} sessions`);
      const soaked = await soak.run({
        sessions: SESSIONS,
        warmUpMs: 30_000,
        ms: rounds * 60_000,
        restMs: 4_000,
        forgetMs: 20_000,
        settleMs: 60_000,
      });
      for (const line of soaked.wrong) print(`  ${line}`);
      print('slow readers');
      const slow = await slowReaders(soak, { readers: 8, messages: 16_000, bystanders: 16, ms: 10_000 });
      for (const line of slow.wrong) print(`  ${line}`);
      return {
        passed: soaked.wrong.length + slow.wrong.length === 0,
        report: `${soakReport(soaked, rounds)}\n${slowReport(slow)}`,
      };
    } finally {
      await soak.close();
    }
  },
};

function soakReport(result: SoakResult, minutes: number): string {
  const { witness, before, after, peakRss, upstreamSessions } = result;
  const { instances } = after;
  const left = Object.keys(instances).filter((name) => instances[name] !== 0 || before.instances[name] !== 0);
  return table(
    [
      ['minutes, after half a minute of warm-up', minutes],
      ['sessions at a time; opened and ended in all', `${SESSIONS}; ${witness.opened}`],
      ['calls that got what their own client had answered', witness.answered],
      ['questions answered (form, completion, roots)', witness.questions],
      ['progress and log messages', witness.notices],
      ['calls cancelled by the client', witness.cancelled],
      ['connections cut and taken up again', witness.resumed],
      ['calls whose client left, or ended the session', witness.left],
      ['clients that read nothing for a second', witness.slow],
      ['times that an upstream forgot all its sessions; calls that this ended', `${result.forgotten}; ${witness.lost}`],
      ['a call with three questions, p50 and p99', times(witness.times)],
      ['heap before and after', `${megabytes(before.heap)} and ${megabytes(after.heap)}`],
      ['main memory before, at most and after', [before.rss, peakRss, after.rss].map(megabytes).join(', ')],
      ['sockets before and after', `${before.sockets} and ${after.sockets}`],
      ['sessions at the upstreams before and after', `${upstreamSessions.before} and ${upstreamSessions.after}`],
      [
        'objects of sessions and calls before and after, where there are any',
        left.map((name) => `${name} ${before.instances[name]} and ${instances[name]}`).join(', ') || 'none',
      ],
      ['after the last session had ended, back there within', `${(result.settledAfter / 1000).toFixed(0)} s`],
    ],
    'what reached another session or call, was lost, or is left',
    result.wrong,
  );
}

function slowReport({ offered, taken, rss, calls, wrong }: SlowReaderResult): string {
  return table(
    [
      ['offered to 8 clients that read nothing', megabytes(offered)],
      ['taken from the upstream until it was held back', megabytes(taken)],
      ['main memory before and at most', `${megabytes(rss.before)} and ${megabytes(rss.peak)}`],
      ['calls of 16 others before', `${calls.before.count}, ${milliseconds(calls.before)}`],
      ['calls of 16 others meanwhile', `${calls.during.count}, ${milliseconds(calls.during)}`],
    ],
    'not held back, delayed, or missing when they read on',
    wrong,
  );
}

function table(rows: readonly (readonly [string, string | number])[], last: string, wrong: readonly string[]): string {
  const all = [...rows, [`**${last}**`, `**${wrong.length}**`]];
  const lines = all.map(([what, value]) => `| ${what} | ${value} |\n`);
  return `| | |\n|---|---|\n${lines.join('')}${wrong.map((line) => `- ${line}\n`).join('')}`;
}

function times(values: readonly number[]): string {
  return `${Math.round(quantile(values, 0.5))} ms, ${Math.round(quantile(values, 0.99))} ms`;
}

function milliseconds({ p50, p99, longest }: SlowReaderResult['calls']['before']): string {
  return `p50 ${Math.round(p50)} ms, p99 ${Math.round(p99)} ms, longest ${Math.round(longest)} ms`;
}

function megabytes(bytes: number): string {
  return `${Math.round(bytes / MEGABYTE)} MB`;
}
