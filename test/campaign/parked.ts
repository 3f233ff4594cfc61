import type { Campaign } from './campaign.ts';
import type { ParkedWitness } from './parked-client.ts';
import { type EndedRound, ParkedRun } from './parked-run.ts';
import { type Holdings, PROBED, ProcessProbe } from './process-probe.ts';
import { quantile } from './witness.ts';

const CALLS = 500;
const WAVES = 10;
/** How long calls are held, in milliseconds: longer than it takes to have all of them parked. */
const TIMEOUT_MS = 8_000;
/** The same where the gateway is ended while they are held. */
const LONG_MS = 300_000;
const MEGABYTE = 1024 * 1024;
/** How long the gateway may take to let go of what waves have left, in milliseconds. */
const SETTLE_MS = 30_000;
const CLASSES = ['ParkableCall', 'RelayedCall', 'ClientAnswer', 'ServerResponse'];
/** The most that may be held when no call is under way: of each class, of sockets, and of the heap beside the first wave's. */
const MOST = { instances: 8, sockets: 16, heapBytes: 20 * MEGABYTE, heapPart: 0.1 };

/** What the gateway holds when no call is under way, and how many streams of sessions that it keeps for the next calls. */
interface Rest {
  readonly holdings: Holdings;
  readonly streams: number;
}

interface WavesResult {
  readonly witness: ParkedWitness;
  /** After the first wave, and after the last. */
  readonly first: Rest;
  readonly last: Rest;
}

interface EndsResult {
  readonly terminated: readonly EndedRound[];
  readonly killed: readonly EndedRound[];
  readonly witness: ParkedWitness;
}

/**
 * Calls that are parked, 500 at once, of several users in two namespaces: nobody may have another's, what nobody comes
 * back for must be ended upstream, and when all are over the gateway must hold nothing of them. Then gateways that are
 * ended while 500 calls are parked. A round is a wave of calls; for every two the gateway is ended once in each way.
 */
export const parkedCampaign: Campaign = {
  name: 'parked',
  title: `${CALLS} calls parked at once, and gateways that are ended meanwhile`,
  async run(print, rounds = WAVES) {
    const waves = await runWaves(rounds, print);
    const ends = await runEnds(Math.ceil(rounds / 2), print);
    const wrong = [...waves.witness.wrong, ...ends.witness.wrong];
    for (const line of wrong) print(`  ${line}`);
    return { passed: wrong.length === 0, report: report(rounds, waves, ends, wrong) };
  },
};

async function runWaves(rounds: number, print: (line: string) => void): Promise<WavesResult> {
  const run = await ParkedRun.start({ timeoutMs: TIMEOUT_MS, nodeArgs: PROBED });
  const probe = await ProcessProbe.connect(run.gateway);
  const { witness } = run;
  const wave = async (number: number) => {
    await run.wave(CALLS);
    print(`wave ${number}: ${witness.answered} of ${witness.calls} calls answered, ${witness.wrong.length} wrong`);
  };
  try {
    await wave(1);
    const first = await atRest(run, probe);
    for (let number = 2; number <= rounds; number++) await wave(number);
    const last = rounds === 1 ? first : await atRest(run, probe);
    witness.wrong.push(...leftOver(first), ...leftOver(last), ...grown(first.holdings, last.holdings));
    // A process does not end while it is looked into.
    probe.close();
    await run.end();
    return { witness, first, last };
  } finally {
    await run.close();
  }
}

async function runEnds(rounds: number, print: (line: string) => void): Promise<EndsResult> {
  const run = await ParkedRun.start({ timeoutMs: LONG_MS });
  const [terminated, killed]: [EndedRound[], EndedRound[]] = [[], []];
  try {
    for (let round = 1; round <= rounds; round++) {
      terminated.push(await run.terminate(CALLS));
      killed.push(await run.kill(CALLS));
      print(
        `ended ${round} times each way: ${run.witness.notHeld} retries not held, ${run.witness.wrong.length} wrong`,
      );
    }
    return { terminated, killed, witness: run.witness };
  } finally {
    await run.close();
  }
}

/** What is held once the gateway has let go of what it does not need, or time is over. */
async function atRest(run: ParkedRun, probe: ProcessProbe): Promise<Rest> {
  run.disconnect();
  const { streams } = await run.upstream.stats();
  const test = (holdings: Holdings) => leftOver({ holdings, streams }).length === 0;
  return { holdings: await probe.until(test, SETTLE_MS, CLASSES), streams };
}

/** A line for everything of which more is held than may be when no call is under way. */
function leftOver({ holdings: { instances, sockets }, streams }: Rest): string[] {
  const lines = Object.entries(instances).flatMap(([name, count]) =>
    count > MOST.instances ? [`${count} instances of ${name} are left`] : [],
  );
  if (sockets - streams > MOST.sockets) lines.push(`${sockets - streams} sockets are open besides ${streams} streams`);
  return lines;
}

function grown(first: Holdings, last: Holdings): string[] {
  const most = first.heap * (1 + MOST.heapPart) + MOST.heapBytes;
  return last.heap > most ? [`the heap has ${last.heap} bytes, after the first wave it had ${first.heap}`] : [];
}

function report(rounds: number, waves: WavesResult, ends: EndsResult, wrong: readonly string[]): string {
  const { witness, first, last } = waves;
  const { terminated, killed } = ends;
  const sum = (from: readonly EndedRound[], value: (round: EndedRound) => number) =>
    from.reduce((all, round) => all + value(round), 0);
  const longest = (from: readonly EndedRound[], value: (round: EndedRound) => number) =>
    `${Math.round(Math.max(...from.map(value)))} ms`;
  const besides = ({ holdings, streams }: Rest) => holdings.sockets - streams;
  const rows: [string, string | number][] = [
    ['waves of 500 calls, all of them parked at once; calls in all', `${rounds}; ${witness.calls}`],
    ['requests answered that input is needed', witness.rounds],
    ['calls that got what their own client had answered', witness.answered],
    [
      'calls whose time was over, or whose client left in its retry; of these cancelled upstream',
      `${witness.expired + witness.left}; ${witness.cancelled}`,
    ],
    ['retries refused: of other users or namespaces, or with another state or other arguments', witness.refused],
    ['retries too late, or sent twice, whose call was not held', witness.notHeld],
    ['a retry to its answer, p50 and p99', times(witness.times)],
    [
      'heap after the first and after the last wave',
      [first, last].map(({ holdings }) => megabytes(holdings.heap)).join(' and '),
    ],
    [
      'sockets after the first and after the last wave, besides those of sessions kept',
      [first, last].map(besides).join(' and '),
    ],
    [
      'objects of calls after the last wave',
      Object.entries(last.holdings.instances)
        .map((entry) => entry.join(' '))
        .join(', '),
    ],
    [
      'SIGTERM: times; calls parked then; of these cancelled upstream',
      `${terminated.length}; ${sum(terminated, ({ parked }) => parked)}; ${sum(terminated, ({ cancelled }) => cancelled)}`,
    ],
    ['from SIGTERM to the end of the process, longest', longest(terminated, ({ endedAfter }) => endedAfter)],
    ['SIGKILL: times; calls parked then', `${killed.length}; ${sum(killed, ({ parked }) => parked)}`],
    [
      'retries after either that were told that the call is not held',
      sum([...terminated, ...killed], ({ notHeld }) => notHeld),
    ],
    [
      'such a retry to its answer, all 500 at once, longest',
      longest([...terminated, ...killed], (round) => round.longest),
    ],
    ['**accepted from another, lost, not cancelled, or left**', `**${wrong.length}**`],
  ];
  const lines = rows.map(([what, value]) => `| ${what} | ${value} |\n`);
  return `| | |\n|---|---|\n${lines.join('')}${wrong.map((line) => `- ${line}\n`).join('')}`;
}

function times(values: readonly number[]): string {
  return `${Math.round(quantile(values, 0.5))} ms, ${Math.round(quantile(values, 0.99))} ms`;
}

function megabytes(bytes: number): string {
  return `${Math.round(bytes / MEGABYTE)} MB`;
}
