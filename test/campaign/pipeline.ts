import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { FULL } from '../../packages/server/src/app/config/pipeline/full.fixture.ts';
import { type Judged, judged } from '../../packages/server/src/app/config/pipeline/judged-mutant.fixture.ts';
import { textMutants } from '../../packages/server/src/app/config/pipeline/text-mutants.fixture.ts';
import { treeMutants } from '../../packages/server/src/app/config/pipeline/tree-mutants.fixture.ts';
import { campaignSeed } from '../fixtures/seed.ts';
import type { Campaign } from './campaign.ts';
import { certificateFolder, type NamedListener, startWith } from './pipeline-start.ts';

const MUTANTS = 10_000;
/** Processes that are started in a round, of files that are taken and of those that are not. */
const STARTS = { taken: 30, refused: 5 };

/** A changed file, and what the parser made of it. */
interface Tried {
  readonly text: string;
  readonly verdict: Judged;
}

/** Changed pipeline files: none may break the start, or start another pipeline than it says. `SEED` makes the same again. */
export const pipelineCampaign: Campaign = {
  name: 'pipeline',
  title: 'Pipeline files that were changed at random',
  async run(print, rounds = 3) {
    const first = campaignSeed();
    print(`SEED=${first}`);
    const folder = await mkdtemp(join(tmpdir(), 'sluice-mutants-'));
    try {
      await certificateFolder(folder);
      // One that can be started here.
      const whole = FULL.replace('127.0.0.1:9001', '127.0.0.1:0')
        .replace("'[::1]:9002'", '127.0.0.1:0')
        .replace('/keys/key.pem', 'key.pem');
      const wrong: string[] = [];
      const counts = new Map<string, number>();
      const count = (what: string) => counts.set(what, (counts.get(what) ?? 0) + 1);
      for (let round = 0; round < rounds; round++) {
        const tried = mutants(whole, folder, first + round);
        for (const { text, verdict } of tried) {
          count(verdict.kind);
          if (verdict.kind === 'wrong') wrong.push(`${verdict.why}\n\n${text}`);
        }
        for (const [kind, most] of Object.entries(STARTS)) {
          for (const { text, verdict } of tried.filter((each) => each.verdict.kind === kind).slice(0, most)) {
            const started = await startWith(text, folder, listenersOf(verdict));
            const outcome = typeof started === 'string' ? started : 'wrong';
            count(`${kind}, ${outcome}`);
            if (typeof started !== 'string') wrong.push(`${started.wrong}\n\n${text}`);
            else if (kind === 'refused' && started === 'ran') wrong.push(`it runs, and should not\n\n${text}`);
          }
        }
        print(`round ${round + 1}: ${tried.length} files, ${wrong.length} findings`);
      }
      for (const paragraph of wrong) print(`\n${paragraph}`);
      return { passed: wrong.length === 0, report: report(first, counts, wrong) };
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  },
};

/** In an order in which those with many changes do not come first. */
function mutants(whole: string, folder: string, seed: number): Tried[] {
  const sample = { numRuns: MUTANTS, seed };
  const ofValues = fc.sample(treeMutants(whole), sample).map(({ text, values }) => ({
    text,
    verdict: judged(text, folder, values),
  }));
  const ofText = fc.sample(textMutants(whole), sample).map((text) => {
    // Half a character is another one in a file.
    const written = Buffer.from(text).toString();
    return { text: written, verdict: judged(written, folder) };
  });
  return ofValues.flatMap((one, index) => [one, ...ofText.slice(index, index + 1)]);
}

function listenersOf(verdict: Judged): NamedListener[] {
  if (verdict.kind !== 'taken') return [];
  return verdict.listeners.map(({ name, tls }) => ({ name, secure: tls !== undefined }));
}

function report(seed: number, counts: ReadonlyMap<string, number>, wrong: readonly string[]): string {
  const of = (what: string) => counts.get(what) ?? 0;
  const rows: readonly (readonly [string, string | number])[] = [
    ['seed', seed],
    ['files that were taken, and meant what the contract makes of their values', of('taken')],
    ['files that were refused, each mistake with its place', of('refused')],
    ['services started with files that were taken', `${of('taken, ran')}, all listeners answered`],
    ['… that ended with one line: no such address or certificate', of('taken, refused')],
    ['services started with files that were refused: ended with one line', of('refused, refused')],
    ['**what was not so**', `**${wrong.length}**`],
  ];
  const shown = wrong.slice(0, 20).map((paragraph) => `\n\`\`\`\n${paragraph}\n\`\`\`\n`);
  return `| | |\n|---|---|\n${rows.map(([what, value]) => `| ${what} | ${value} |\n`).join('')}${shown.join('')}`;
}
