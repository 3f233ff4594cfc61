import { mkdir, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startGateway } from '../fixtures/gateway.ts';
import type { Campaign } from './campaign.ts';
import { KNOWN_DIFFERENCES, knownDifference } from './sdks/differences.ts';
import { type PairRun, runDirectly, runThroughSluice } from './sdks/pair-run.ts';
import { SDKS, type Sdk, type SdkPrograms } from './sdks/programs.ts';
import { compareTranscripts, type StepDifference } from './sdks/transcript.ts';

/** An SDK whose programs are built. */
interface BuiltSdk extends SdkPrograms {
  readonly sdk: Sdk;
  readonly version: string;
}

/** A client with a server. */
interface PairResult {
  readonly client: BuiltSdk;
  readonly server: BuiltSdk;
  /** Whether they work together directly. */
  readonly connects: boolean;
  /** Differences that are in the committed list. */
  readonly known: number;
  readonly failures: readonly StepDifference[];
}

/** Transcripts and bytes of pairs that failed. */
const FOLDER = join(tmpdir(), 'sluice-sdks');
/** Pairs that run at the same time: most of their time they wait. */
const AT_ONCE = 4;
/** Names of SDKs, separated by commas: runs only the pairs of these. */
const SELECTED = process.env.SLUICE_SDKS?.split(',');

/** A round is every client with every server, directly and through Sluice. */
export const sdksCampaign: Campaign = {
  name: 'sdks',
  title: 'Official SDKs',
  page: 'docs/conformance.md',
  async run(print, rounds = 1) {
    const built: BuiltSdk[] = [];
    const skipped: string[] = [];
    for (const sdk of SDKS.filter(({ name }) => SELECTED === undefined || SELECTED.includes(name))) {
      const programs = await sdk.build();
      if (typeof programs === 'string') skipped.push(`${sdk.title}: needs ${programs}`);
      else built.push({ ...programs, sdk, version: await sdk.version() });
    }
    if (skipped.length > 0) print(`skipped: ${skipped.join('; ')}`);
    await mkdir(FOLDER, { recursive: true });
    const pairs = Array.from({ length: rounds }, () =>
      built.flatMap((server) => built.map((client) => ({ client, server }))),
    ).flat();
    const results: PairResult[] = [];
    const work = async () => {
      for (let pair = pairs.shift(); pair !== undefined; pair = pairs.shift()) {
        results.push(await runPair(pair.client, pair.server, print));
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    return { passed: results.every(({ failures }) => failures.length === 0), report: report(built, results, skipped) };
  },
};

async function runPair(client: BuiltSdk, server: BuiltSdk, print: (line: string) => void): Promise<PairResult> {
  const pair = `${client.sdk.name} client, ${server.sdk.name} server`;
  const [direct, through] = await Promise.all([
    runDirectly(client.client, server.server),
    runThroughNewGateway(client, server),
  ]);
  // Not every client can connect to every server; then there is nothing to compare with.
  const connects = Object.hasOwn(Object(direct.transcript.get('initialize')), 'result');
  if (!connects) print(`${pair}: no direct connection`);
  const differences = connects ? compareTranscripts(direct.transcript, through.transcript) : [];
  const failures = differences.filter((difference) => knownDifference(difference) === undefined);
  if (connects)
    print(failures.length === 0 ? `${pair}: equal` : `${pair}: ${failures.map(({ step }) => step).join(', ')}`);
  for (const failure of failures) print(failureText(failure));
  if (failures.length > 0) await record(`${client.sdk.name}-${server.sdk.name}`, direct, through);
  return { client, server, connects, known: differences.length - failures.length, failures };
}

/** With a gateway of its own, which has seen no other client: the first one matters most. */
async function runThroughNewGateway(client: BuiltSdk, server: BuiltSdk): Promise<PairRun> {
  const gateway = await startGateway();
  try {
    return await runThroughSluice(client.client, server.server, gateway);
  } finally {
    await gateway.close();
  }
}

function failureText({ step, direct, through }: StepDifference): string {
  const short = (outcome: unknown) => (JSON.stringify(outcome) ?? 'not reached').slice(0, 1_000);
  return `  ${step}\n    directly:       ${short(direct)}\n    through Sluice: ${short(through)}`;
}

/** Writes the transcripts and bytes of both runs. */
async function record(pair: string, direct: PairRun, through: PairRun): Promise<void> {
  for (const [name, run] of Object.entries({ direct, through })) {
    const lines = [...run.transcript].map(([step, outcome]) => `${step} ${JSON.stringify(outcome)}`);
    await writeFile(join(FOLDER, `${pair}.${name}`), `${lines.join('\n')}\n\n${run.bytes}`);
  }
}

function report(built: readonly BuiltSdk[], results: readonly PairResult[], skipped: readonly string[]): string {
  const cell = (client: BuiltSdk, server: BuiltSdk): string => {
    const runs = results.filter((result) => result.client === client && result.server === server);
    const failed = runs.flatMap(({ failures }) => failures).length;
    if (failed > 0) return `**fails: ${failed}**`;
    if (runs.some(({ connects }) => !connects)) return 'not directly';
    const known = runs.reduce((sum, run) => sum + run.known, 0);
    return known > 0 ? `equal, listed: ${known}` : 'equal';
  };
  const position = ({ client, server }: PairResult) => built.indexOf(server) * built.length + built.indexOf(client);
  const failing = results
    .filter(({ failures }) => failures.length > 0)
    .toSorted((one, other) => position(one) - position(other));
  const equal = results.filter(({ connects, failures }) => connects && failures.length === 0).length;
  const head = ['Client', ...built.map(({ sdk, version }) => `${sdk.title} server ${version}`)];
  const rows = built.map((client) => [
    `${client.sdk.title} ${client.version}`,
    ...built.map((server) => cell(client, server)),
  ]);
  const table = (lines: readonly (readonly string[])[]) => lines.map((cells) => `| ${cells.join(' | ')} |\n`).join('');
  const failures = failing.flatMap(({ client, server, failures: steps }) =>
    steps.map(({ step }) => `- ${client.sdk.title} client, ${server.sdk.title} server: ${step}\n`),
  );
  const known = KNOWN_DIFFERENCES.map(({ step, direct, through, section, reason }) => [
    step,
    `\`${direct}\``,
    `\`${through}\``,
    section,
    reason,
  ]);
  return [
    `${results.length} pairs: ${equal} equal, ${failing.length} fail, ${results.length - equal - failing.length} do not connect directly.`,
    ...skipped.map((line) => ` Skipped: ${line}.`),
    `\n\n${table([head, head.map(() => '---'), ...rows])}`,
    failures.length > 0 ? `\nSteps that differ:\n\n${failures.join('')}` : '',
    `\nListed differences (\`*\` matches any text):\n\n`,
    table([['Step', 'Directly', 'Through Sluice', 'Section', 'Reason'], Array(5).fill('---'), ...known]),
  ].join('');
}
