import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from '../fixtures/free-port.ts';
import { type Gateway, startGateway } from '../fixtures/gateway.ts';
import type { Campaign } from './campaign.ts';
import { Writers } from './writers.ts';

const WRITERS = 200;
/** Random delay until a kill: long enough for several checkpoints of the journal. */
const KILL_DELAY_MS = { min: 50, max: 1_500 };
/** Tools registered beforehand, so that many kills hit a write of `registry.json`. */
const INITIAL_TOOLS = 10_000;

/** Result of one kill and restart. */
export interface KillRound {
  /** Milliseconds from the first write to the kill. */
  killedAfter: number;
  /** Writes with a response before the kill. */
  acknowledged: number;
  /** Writes without a response, and how many of them were persisted. */
  unanswered: number;
  persisted: number;
  /** Files in the registry's folder right after the kill. */
  files: string[];
  /** Milliseconds from the restart until the gateway was ready. */
  readyAfter: number;
  /** One line per violation; empty in a good round. */
  failures: string[];
}

/**
 * Kills the gateway at random moments under 200 concurrent writers and restarts it on the same folder, `rounds` times.
 * Each round checks that `registry.json` parses after the kill, and that the gateway has every acknowledged write and no
 * others. `ballastTools` is the number of tools registered beforehand.
 */
export async function killRounds(
  rounds: number,
  ballastTools: number,
  onRound: (round: KillRound) => void = () => {},
): Promise<KillRound[]> {
  const [management, mcp] = await Promise.all([freePort(), freePort()]);
  const gateway = await startGateway({ management: `127.0.0.1:${management}`, mcp: `127.0.0.1:${mcp}` });
  const writers = new Writers(gateway.management(), WRITERS);
  const results: KillRound[] = [];
  try {
    const before = ballast(ballastTools);
    if (before.length > 0) await startWithTools(gateway, before);
    for (const { name, description } of before) writers.expect(name, description);
    for (let round = 0; round < rounds; round++) {
      const before = { acknowledged: writers.acknowledged, errors: writers.errors.length };
      const killedAfter = Math.round(KILL_DELAY_MS.min + Math.random() * (KILL_DELAY_MS.max - KILL_DELAY_MS.min));
      writers.begin();
      await delay(killedAfter);
      await gateway.kill();
      await writers.end();
      const files = await readdir(gateway.folder);
      const failures = writers.errors.slice(before.errors);
      if (files.includes('registry.json'))
        failures.push(...(await parseFailures(join(gateway.folder, 'registry.json'))));
      const start = performance.now();
      await gateway.restart();
      const readyAfter = Math.round(performance.now() - start);
      const { failures: differences, ...counts } = await writers.compare();
      const result: KillRound = {
        killedAfter,
        acknowledged: writers.acknowledged - before.acknowledged,
        ...counts,
        files,
        readyAfter,
        failures: [...failures, ...differences],
      };
      results.push(result);
      onRound(result);
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
    const results = await killRounds(rounds, INITIAL_TOOLS, (round) => {
      const { killedAfter, acknowledged, unanswered, persisted, readyAfter, failures } = round;
      const cells = [++number, killedAfter, acknowledged, unanswered, persisted, readyAfter, failures.length];
      if (number === 1) print('round  killed after ms  acknowledged  unanswered  persisted  ready after ms  failures');
      print(cells.map((cell, index) => String(cell).padStart([5, 17, 14, 12, 11, 16, 10][index] ?? 0)).join(''));
      for (const line of failures) print(`  ${line}`);
    });
    return { passed: results.every(({ failures }) => failures.length === 0), report: report(results) };
  },
};

function report(results: readonly KillRound[]): string {
  const sum = (value: (round: KillRound) => number): number => results.reduce((all, round) => all + value(round), 0);
  const ready = results.map(({ readyAfter }) => readyAfter).sort((a, b) => a - b);
  const withFile = (pattern: RegExp) => sum(({ files }) => (files.some((name) => pattern.test(name)) ? 1 : 0));
  const rows: [string, number | string][] = [
    ['rounds', results.length],
    ['tools registered beforehand', INITIAL_TOOLS],
    [
      'acknowledged writes (POST, PUT, DELETE of tools; POST, DELETE of namespaces)',
      sum((round) => round.acknowledged),
    ],
    ['writes in flight at the kill, without a response', sum((round) => round.unanswered)],
    ['unanswered writes that were persisted', sum((round) => round.persisted)],
    ['kills with commits in the journal', withFile(/^registry\.journal\.\d+$/)],
    ['kills during a write of `registry.json`', withFile(/^registry\.json\.tmp$/)],
    ['restart until ready, median and maximum', `${ready[ready.length >> 1]} ms, ${ready.at(-1)} ms`],
    ['**acknowledged writes lost or undone, or unparsable files**', `**${sum((round) => round.failures.length)}**`],
  ];
  const failureLines = results.flatMap((round) => round.failures).map((line) => `- ${line}\n`);
  return `| | |\n|---|---|\n${rows.map(([label, value]) => `| ${label} | ${value} |\n`).join('')}${failureLines.join('')}`;
}

/** A tool in `registry.json`. */
type StoredTool = ReturnType<typeof ballast>[number];

/** Tools of a realistic size. */
export function ballast(count: number) {
  return Array.from({ length: count }, (_, index) => ({
    name: `ballast-${index}`,
    description: `Tool ${index} of many. ${'This text gives it a realistic size. '.repeat(10)}`,
    uri: 'http://tool',
    toolType: 'http',
    input_schema: { type: 'object', properties: { id: { type: 'integer' } } },
  }));
}

/** Restarts the gateway with these tools in its `registry.json`. */
export async function startWithTools(gateway: Gateway, tools: readonly StoredTool[]): Promise<void> {
  await gateway.stop();
  await writeFile(join(gateway.folder, 'registry.json'), JSON.stringify({ version: 1, tools }));
  await gateway.restart();
}

async function parseFailures(path: string): Promise<string[]> {
  const text = await readFile(path, 'utf8');
  try {
    JSON.parse(text);
    return [];
  } catch (error) {
    return [`registry.json does not parse: ${String(error)}`];
  }
}
