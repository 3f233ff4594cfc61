import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { checkMutant, type MutantResult } from '../../packages/server/src/app/config/pipeline/check-mutant.fixture.ts';
import { FULL } from '../../packages/server/src/app/config/pipeline/full.fixture.ts';
import { textMutants } from '../../packages/server/src/app/config/pipeline/text-mutants.fixture.ts';
import { treeMutants } from '../../packages/server/src/app/config/pipeline/tree-mutants.fixture.ts';
import { campaignSeed } from '../fixtures/seed.ts';
import type { Campaign } from './campaign.ts';
import { createCertificateFolder, type ExpectedListener, startWith } from './pipeline-start.ts';

const MUTANTS = 10_000;
/** Processes started in a round, by the parser's result. */
const STARTS = { accepted: 30, rejected: 5 };

/** A mutated file, and the result of the parser. */
interface ParsedMutant {
  readonly text: string;
  readonly verdict: MutantResult;
}

/** Mutates pipeline files: each must be rejected, or start the pipeline that it describes. `SEED` repeats a run. */
export const pipelineCampaign: Campaign = {
  name: 'pipeline',
  title: 'Random mutations of pipeline files',
  async run(print, rounds = 3) {
    const first = campaignSeed();
    print(`SEED=${first}`);
    const folder = await mkdtemp(join(tmpdir(), 'sluice-mutants-'));
    try {
      await createCertificateFolder(folder);
      // A file that can be started here.
      const whole = FULL.replace('127.0.0.1:9001', '127.0.0.1:0')
        .replace("'[::1]:9002'", '127.0.0.1:0')
        .replace('/keys/key.pem', 'key.pem');
      const failures: string[] = [];
      const counts = new Map<string, number>();
      const count = (key: string) => counts.set(key, (counts.get(key) ?? 0) + 1);
      for (let round = 0; round < rounds; round++) {
        const parsed = mutants(whole, folder, first + round);
        for (const { text, verdict } of parsed) {
          count(verdict.kind);
          if (verdict.kind === 'wrong') failures.push(`${verdict.why}\n\n${text}`);
        }
        for (const [kind, most] of Object.entries(STARTS)) {
          for (const { text, verdict } of parsed.filter((each) => each.verdict.kind === kind).slice(0, most)) {
            const started = await startWith(text, folder, listenersOf(verdict));
            const outcome = typeof started === 'string' ? started : 'failed';
            count(`${kind}, ${outcome}`);
            if (typeof started !== 'string') failures.push(`${started.failure}\n\n${text}`);
            else if (kind === 'rejected' && started === 'ran')
              failures.push(`the service runs with a rejected file\n\n${text}`);
          }
        }
        print(`round ${round + 1}: ${parsed.length} files, ${failures.length} findings`);
      }
      for (const paragraph of failures) print(`\n${paragraph}`);
      return { passed: failures.length === 0, report: report(first, counts, failures) };
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  },
};

/** Mutants of values and of text, alternating. */
function mutants(whole: string, folder: string, seed: number): ParsedMutant[] {
  const sample = { numRuns: MUTANTS, seed };
  const ofValues = fc.sample(treeMutants(whole), sample).map(({ text, values }) => ({
    text,
    verdict: checkMutant(text, folder, values),
  }));
  const ofText = fc.sample(textMutants(whole), sample).map((text) => {
    // A lone surrogate becomes another character in a file.
    const written = Buffer.from(text).toString();
    return { text: written, verdict: checkMutant(written, folder) };
  });
  return ofValues.flatMap((one, index) => [one, ...ofText.slice(index, index + 1)]);
}

function listenersOf(verdict: MutantResult): ExpectedListener[] {
  if (verdict.kind !== 'accepted') return [];
  return verdict.listeners.map(({ name, tls }) => ({ name, secure: tls !== undefined }));
}

function report(seed: number, counts: ReadonlyMap<string, number>, failures: readonly string[]): string {
  const of = (key: string) => counts.get(key) ?? 0;
  const rows: readonly (readonly [string, string | number])[] = [
    ['seed', seed],
    ['accepted files, with the configuration that their values specify', of('accepted')],
    ['rejected files, each error with its position', of('rejected')],
    ['services started with accepted files', `${of('accepted, ran')}, all listeners responded`],
    ['… that exited with a one-line error: address or certificate not available', of('accepted, rejected')],
    ['services started with rejected files: exited with a one-line error', of('rejected, rejected')],
    ['**deviations**', `**${failures.length}**`],
  ];
  const details = failures.slice(0, 20).map((paragraph) => `\n\`\`\`\n${paragraph}\n\`\`\`\n`);
  return `| | |\n|---|---|\n${rows.map(([label, value]) => `| ${label} | ${value} |\n`).join('')}${details.join('')}`;
}
