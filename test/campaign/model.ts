import { campaignSeed } from '../fixtures/seed.ts';
import { checkModel } from '../model/property.ts';
import type { Tally } from '../model/run.ts';
import type { Campaign } from './campaign.ts';

const STEPS = 60;
const MINUTES = 10;
/** Progress is shown every so many runs. */
const SHOWN_EVERY = 10;

/** `SEED` makes the same runs again. */
export const modelCampaign: Campaign = {
  name: 'model',
  title: 'Random calls of the management API, restarts between them, against a model of the registry',
  async run(print, rounds = 300) {
    const seed = campaignSeed();
    print(`SEED=${seed}`);
    const { tally, failure } = await checkModel({
      ...{ runs: rounds, steps: STEPS, ms: MINUTES * 60_000, seed },
      progress: ({ runs, calls, restarts }) => {
        if (runs % SHOWN_EVERY === 0)
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
    [`runs of ${STEPS} steps at most, each on an empty registry`, tally.runs],
    ['calls, by status of their answers', `${tally.calls} (${statuses.join(', ')})`],
    ['restarts by SIGTERM and by SIGKILL', `${tally.restarts.SIGTERM} and ${tally.restarts.SIGKILL}`],
    ['groups of calls at once; calls that a restart left without an answer', `${tally.groups}; ${tally.unanswered}`],
    ['comparisons of the whole state; with entries shadowed', `${tally.comparisons}; ${tally.shadowed}`],
    ['times that what happens at once happened in another order', tally.otherOrders],
    ['**runs in which service and model did not agree**', `**${failure === undefined ? 0 : 1}**`],
  ];
  const shown = failure === undefined ? '' : `\n\`\`\`\n${failure}\n\`\`\`\n`;
  return `| | |\n|---|---|\n${rows.map(([what, value]) => `| ${what} | ${value} |\n`).join('')}${shown}`;
}
