import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { startGateway } from '../fixtures/gateway.ts';
import { campaignSeed } from '../fixtures/seed.ts';
import type { Campaign } from './campaign.ts';
import { type Choose, HiddenClients } from './hidden-clients.ts';
import { HiddenModel, type HiddenObject, type Operation } from './hidden-model.ts';
import { HiddenOperations, type HiddenSystem } from './hidden-operations.ts';
import { HiddenUpstream } from './hidden-upstream.ts';

const FORWARDS = ['f', 'g'] as const;
const CLIENTS = 4;
/** Requests of the clients between two operations. */
const REQUESTS = 16;

/** Result of a run. */
export interface HiddenRun {
  readonly operations: number;
  readonly outcomes: Readonly<Record<string, number>>;
  /** Requests that were answered, and those among them that showed objects. */
  readonly answers: number;
  readonly sightings: number;
  /** Hidden objects, summed over the operations. */
  readonly hidden: number;
  /** The first violation with the operations before it; empty in a good run. */
  readonly failures: readonly string[];
}

/** Objects of a forward. The one called late is not in its lists at first. */
function objectsOf(forward: string): HiddenObject[] {
  const names = [`${forward}0`, `${forward}1`, `${forward}late`];
  return [
    ...names.map((key) => ({ forward, kind: 'tools', key }) as const),
    ...names.map((key) => ({ forward, kind: 'resources', key: `${forward}://${key}` }) as const),
    ...names.map((key) => ({ forward, kind: 'prompts', key }) as const),
  ];
}

/**
 * Hides and shows objects in every way, in random order, while clients ask for them: what is hidden must not be seen in a single
 * response.
 */
export async function runHidden(system: HiddenSystem, operations: number, seed: number): Promise<HiddenRun> {
  const choose = randomChoice(seed);
  const objects = FORWARDS.flatMap(objectsOf);
  const upstreams = await Promise.all(
    FORWARDS.map((name) => {
      const offered = objects.filter(({ forward, key }) => forward === name && !key.endsWith('late'));
      return HiddenUpstream.start(name, offered);
    }),
  );
  const model = new HiddenModel(objects);
  const clients = new HiddenClients(
    model,
    objects,
    (namespace) => system.url(namespace),
    randomChoice(seed + 1),
    CLIENTS,
  );
  const random = new HiddenOperations(system, upstreams, objects, choose);
  const outcomes: Record<string, number> = {};
  const trace: string[] = [];
  let hidden = 0;
  let done = 0;
  const perform = async (operation: Operation): Promise<void> => {
    const outcome = await model.perform(operation);
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
    trace.push(`${operation.text}: ${outcome}`);
    if (!model.observe(await forwardsOf(system))) clients.failures.push('the configuration of the forwards was lost');
    hidden += model.hidden.length;
    done++;
    await clients.asked(REQUESTS);
  };
  try {
    while (done < operations && clients.failures.length === 0) {
      const known = await forwardsOf(system);
      const missing = upstreams.find(({ forward }) => !Object.hasOwn(known, forward));
      await perform(missing && choose([true, true, false]) ? random.register(missing) : random.next());
    }
  } finally {
    await clients.close();
    for (const upstream of upstreams) await upstream.close();
  }
  const [failure] = clients.failures;
  const failures =
    failure === undefined ? [] : [`${failure}, with seed ${seed}, after:\n${trace.slice(-12).join('\n')}`];
  return { operations: done, outcomes, answers: clients.answers, sightings: clients.sightings, hidden, failures };
}

async function forwardsOf(system: HiddenSystem): Promise<Parameters<HiddenModel['observe']>[0]> {
  const { data } = await system.api('GET', '/forwards');
  return Object.fromEntries(Object.values(Object(data)).map((forward) => [Object(forward).name, Object(forward)]));
}

/** Mulberry32. */
function randomChoice(seed: number): Choose {
  let state = seed;
  const random = (): number => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  return (items) => {
    const at = Math.floor(random() * items.length);
    for (const item of items.slice(at, at + 1)) return item;
    throw new Error('nothing to choose from');
  };
}

/** A gateway in a process of its own. */
async function processSystem(): Promise<HiddenSystem> {
  const file = 'service.yaml';
  const gateway = await startGateway();
  return {
    management: gateway.management,
    async api(method, path, body) {
      const response = await gateway
        .api(method, `/api/v1${path}`, body)
        .catch(() => ({ status: 503, body: undefined }));
      return { status: response.status, data: Object(response.body).data };
    },
    url: gateway.url,
    async restart(bootstrap, crash) {
      if (crash) await gateway.kill();
      else await gateway.stop();
      // The file in the working directory is the bootstrap file.
      await writeFile(join(gateway.folder, '..', file), bootstrap);
      await gateway.restart();
    },
    close: gateway.close,
  };
}

const OPERATIONS = 300;

/** A round is a gateway with 300 operations. */
export const hiddenCampaign: Campaign = {
  name: 'hidden',
  title: 'Hidden entries under every operation',
  async run(print, rounds = 10) {
    const first = campaignSeed();
    const runs: HiddenRun[] = [];
    for (let round = 0; round < rounds; round++) {
      const system = await processSystem();
      try {
        const result = await runHidden(system, OPERATIONS, first + round);
        runs.push(result);
        print(`${round + 1}: ${result.operations} operations, ${result.answers} answers`);
        for (const line of result.failures) print(line);
      } finally {
        await system.close();
      }
    }
    const sum = (value: (run: HiddenRun) => number) => runs.reduce((all, run) => all + value(run), 0);
    const outcomes = ['done', 'rejected', 'unknown']
      .map((outcome) => sum((run) => run.outcomes[outcome] ?? 0))
      .join(', ');
    const failures = runs.flatMap((run) => run.failures);
    const rows: readonly (readonly [string, number | string])[] = [
      ['runs; first seed', `${rounds}; ${first}`],
      ['operations done, rejected, and with unknown outcome', outcomes],
      ['answers to clients; with entries', `${sum((run) => run.answers)}; ${sum((run) => run.sightings)}`],
      ['hidden entries, on average', Math.round(sum((run) => run.hidden) / sum((run) => run.operations))],
      ['**hidden entries seen, or configuration lost**', `**${failures.length}**`],
    ];
    const table = rows.map(([label, value]) => `| ${label} | ${value} |\n`).join('');
    return {
      passed: failures.length === 0,
      report: `| | |\n|---|---|\n${table}${failures.map((line) => `\n${line}\n`).join('')}`,
    };
  },
};
