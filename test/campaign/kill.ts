import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from '../fixtures/free-port.ts';
import { type Gateway, startGateway } from '../fixtures/gateway.ts';
import type { Campaign } from './campaign.ts';
import { Writers } from './writers.ts';

const WRITERS = 200;
/** Kills come at a random moment between these: long enough for several folds of the journal. */
const KILL_MS = { earliest: 50, latest: 1_500 };
/** Tools that are registered beforehand, so that a good part of the kills meets `registry.json` being written. */
const BALLAST = 10_000;

/** What one kill left, and what the next start made of it. */
export interface KillRound {
  /** Milliseconds from the first write to the kill. */
  killedAfter: number;
  /** Writes that were answered before it. */
  acknowledged: number;
  /** Writes that were not, and how many of them are there all the same. */
  unanswered: number;
  kept: number;
  /** Files in the registry's folder right after the kill. */
  files: string[];
  /** Milliseconds until the gateway was ready again. */
  readyAfter: number;
  /** A line for everything that is not as it must be; empty in a good round. */
  wrong: string[];
}

/**
 * Kills the gateway at random moments under 200 concurrent writers and starts it again on the same folder, so many
 * times in a row. Each round checks that `registry.json` parses as the kill left it, and that the gateway holds every
 * acknowledged write, and nothing that nobody wrote. `ballast` is the number of tools that are there from the start.
 */
export async function killRounds(
  rounds: number,
  ballast: number,
  done: (round: KillRound) => void = () => {},
): Promise<KillRound[]> {
  const [management, mcp] = await Promise.all([freePort(), freePort()]);
  const gateway = await startGateway({ management: `127.0.0.1:${management}`, mcp: `127.0.0.1:${mcp}` });
  const writers = new Writers(gateway.management(), WRITERS);
  const results: KillRound[] = [];
  try {
    if (ballast > 0) await load(gateway, writers, ballast);
    for (let round = 0; round < rounds; round++) {
      const before = { acknowledged: writers.acknowledged, surprises: writers.surprises.length };
      const killedAfter = Math.round(KILL_MS.earliest + Math.random() * (KILL_MS.latest - KILL_MS.earliest));
      writers.begin();
      await delay(killedAfter);
      await gateway.kill();
      await writers.end();
      const files = await readdir(gateway.folder);
      const wrong = writers.surprises.slice(before.surprises);
      if (files.includes('registry.json')) wrong.push(...(await parses(join(gateway.folder, 'registry.json'))));
      const begun = performance.now();
      await gateway.restart();
      const readyAfter = Math.round(performance.now() - begun);
      const { wrong: differing, ...counts } = await writers.compare();
      const result: KillRound = {
        killedAfter,
        acknowledged: writers.acknowledged - before.acknowledged,
        ...counts,
        files,
        readyAfter,
        wrong: [...wrong, ...differing],
      };
      results.push(result);
      done(result);
    }
  } finally {
    writers.close();
    await gateway.close();
  }
  return results;
}

export const killCampaign: Campaign = {
  name: 'kill',
  title: `SIGKILL under ${WRITERS} concurrent writes`,
  async run(print, rounds = 100) {
    let number = 0;
    const results = await killRounds(rounds, BALLAST, (round) => {
      const { killedAfter, acknowledged, unanswered, kept, readyAfter, wrong } = round;
      const cells = [++number, killedAfter, acknowledged, unanswered, kept, readyAfter, wrong.length];
      if (number === 1) print('round  killed after ms  acknowledged  unanswered  kept  ready after ms  wrong');
      print(cells.map((cell, index) => String(cell).padStart([5, 17, 14, 12, 6, 16, 7][index] ?? 0)).join(''));
      for (const line of wrong) print(`  ${line}`);
    });
    return { passed: results.every(({ wrong }) => wrong.length === 0), report: report(results) };
  },
};

function report(results: readonly KillRound[]): string {
  const sum = (value: (round: KillRound) => number): number => results.reduce((all, round) => all + value(round), 0);
  const ready = results.map(({ readyAfter }) => readyAfter).sort((a, b) => a - b);
  const withFile = (pattern: RegExp) => sum(({ files }) => (files.some((name) => pattern.test(name)) ? 1 : 0));
  const rows: [string, number | string][] = [
    ['rounds', results.length],
    ['tools registered beforehand', BALLAST],
    [
      'acknowledged writes (POST, PUT, DELETE of tools; POST, DELETE of namespaces)',
      sum((round) => round.acknowledged),
    ],
    ['writes that the kill left without an answer', sum((round) => round.unanswered)],
    ['of these found after the restart', sum((round) => round.kept)],
    ['kills with commits in the journal', withFile(/^registry\.journal\.\d+$/)],
    ['kills while `registry.json` was being written', withFile(/^registry\.json\.tmp$/)],
    ['start to ready, median and longest', `${ready[ready.length >> 1]} ms, ${ready.at(-1)} ms`],
    ['**lost or come back after an acknowledgement, or unparsable**', `**${sum((round) => round.wrong.length)}**`],
  ];
  const wrong = results.flatMap((round) => round.wrong).map((line) => `- ${line}\n`);
  return `| | |\n|---|---|\n${rows.map(([what, value]) => `| ${what} | ${value} |\n`).join('')}${wrong.join('')}`;
}

/** Has the gateway start with so many tools in its `registry.json`. */
async function load(gateway: Gateway, writers: Writers, count: number): Promise<void> {
  await gateway.stop();
  const tools = Array.from({ length: count }, (_, index) => ({
    name: `ballast-${index}`,
    description: `Tool ${index} of many. ${'It weighs what a tool weighs. '.repeat(10)}`,
    uri: 'http://tool',
    toolType: 'http',
    input_schema: { type: 'object', properties: { id: { type: 'integer' } } },
  }));
  await writeFile(join(gateway.folder, 'registry.json'), JSON.stringify({ version: 1, tools }));
  await gateway.restart();
  for (const { name, description } of tools) writers.expect(name, description);
}

async function parses(path: string): Promise<string[]> {
  const text = await readFile(path, 'utf8');
  try {
    JSON.parse(text);
    return [];
  } catch (error) {
    return [`registry.json does not parse: ${String(error)}`];
  }
}
