import { campaignSeed } from '../fixtures/seed.ts';
import { checkModel } from '../model/property.ts';
import type { Tally } from '../model/run.ts';
import type { Campaign } from './campaign.ts';

const STEPS = 60;
const MINUTES = 10;
/** Runs between two progress messages. */
const PROGRESS_INTERVAL = 10;

/** `SEED` repeats a run. */
export const modelCampaign: Campaign = {
  name: 'model',
  title: 'Random management API calls and restarts, compared with a model of the registry',
  async run(print, rounds = 300) {
    const seed = campaignSeed();
    print(`SEED=${seed}`);
    const { tally, failure } = await checkModel({
      ...{ runs: rounds, steps: STEPS, ms: MINUTES * 60_000, seed },
      progress: ({ runs, calls, restarts }) => {
        if (runs % PROGRESS_INTERVAL === 0)
          print(`run ${runs}: ${calls} calls, ${restarts.SIGTERM + restarts.SIGKILL} restarts`);
      },
    });
    return { passed: failure === undefined, report: report(tally, seed, failure) };
  },
};

function report(tally: Tally, seed: number, failure: string | undefined): string {
  const statuses = Object.entries(tally.statuses).map(([status, count]) => `${status}: ${count}`);
  const rows: readonly (readonly [string, number | string])[] = [
    ['seed', seed],
    [`runs of ${STEPS} steps at most, each with an empty registry`, tally.runs],
    ['calls by response status', `${tally.calls} (${statuses.join(', ')})`],
    ['restarts with SIGTERM and with SIGKILL', `${tally.restarts.SIGTERM} and ${tally.restarts.SIGKILL}`],
    [
      'groups of concurrent calls; calls without a response because of a restart',
      `${tally.groups}; ${tally.unanswered}`,
    ],
    ['comparisons of the whole state; with shadowed entries', `${tally.comparisons}; ${tally.shadowed}`],
    ['concurrent calls that took effect in another order', tally.otherOrders],
    ['**runs in which service and model differ**', `**${failure === undefined ? 0 : 1}**`],
  ];
  const details = failure === undefined ? '' : `\n\`\`\`\n${failure}\n\`\`\`\n`;
  return `| | |\n|---|---|\n${rows.map(([label, value]) => `| ${label} | ${value} |\n`).join('')}${details}`;
}
