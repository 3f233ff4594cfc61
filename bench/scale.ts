import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { makeCaller } from './caller.ts';
import { type Case, cases } from './cases.ts';
import { residentMiB, startChild } from './child.ts';
import { type Spread, spread } from './figures.ts';
import { type Gateway, startGateway, startUpstream, type Upstream } from './gateway.ts';
import type { Options } from './options.ts';
import { load } from './programs.ts';
import { planLoad } from './requests.ts';

/** Limit of the CPU time of a list in the large registry, relative to the small one. */
export const growthLimit = 1.25;
/** Differences below this are a tie. */
export const growthAim = 1.1;

/** Tools in each namespace of the large registry. */
export const toolsPerNamespace = 2_000;

/** Figures of a registry. */
export interface RegistryFigures {
  readonly namespaces: number;
  readonly tools: number;
  readonly readyMs: Spread;
  /** Resident memory when ready, and after discovery and lists. */
  readonly readyMiB: Spread;
  readonly settledMiB: number;
  /** CPU milliseconds of a `tools/list` in the namespaces with 2,000 and 20 tools. */
  readonly largeListMs: Spread | undefined;
  readonly smallListMs: Spread | undefined;
}

/** Figures of the large registry, and of one with only the measured namespaces. */
export interface SizeFigures {
  readonly full: RegistryFigures;
  readonly small: RegistryFigures;
}

/** Forward of the registry. */
interface RegistryForward {
  readonly namespace: string;
  readonly address: URL;
  readonly tools: number;
}

/**
 * Fills two registries through the management API, restarts the gateway on each, and compares the cost of starting and
 * listing.
 */
export async function measureSize(
  options: Options,
  folder: string,
  withLoad: boolean,
  log: (line: string) => void,
): Promise<SizeFigures> {
  const { plan } = options;
  await using large = await startUpstream(folder, 'legacy', toolsPerNamespace, 500);
  await using smallUpstream = await startUpstream(folder, 'legacy', 20, 20);
  const measured = [member(large, 'ns0', toolsPerNamespace), member(smallUpstream, 'small', 20)];
  const others = Array.from({ length: plan.sizeNamespaces - 1 }, (_, index) =>
    member(large, `ns${index + 1}`, toolsPerNamespace),
  );
  const full = await prepare(options, `${folder}/full`, [...measured, ...others], log);
  const small = await prepare(options, `${folder}/alone`, measured, log);

  await using fullGateway = await full.startRepeatedly(plan.sizeStarts, log);
  await using smallGateway = await small.startRepeatedly(plan.sizeStarts, log);
  if (withLoad) {
    await full.list(fullGateway, true);
    await small.list(smallGateway, true);
    for (let round = 0; round < plan.sizeRounds; round++) {
      log(`registry at size, lists, round ${round + 1} of ${plan.sizeRounds}`);
      const lists = [() => full.list(fullGateway, false), () => small.list(smallGateway, false)];
      for (const list of round % 2 === 0 ? lists : lists.reverse()) await list();
    }
  }
  return { full: full.figures(fullGateway), small: small.figures(smallGateway) };
}

const member = (fixture: Upstream, namespace: string, tools: number): RegistryForward => ({
  namespace,
  address: fixture.endpoint(namespace),
  tools,
});

/** Registers the forwards in a gateway with a new folder and stops it. */
async function prepare(
  options: Options,
  folder: string,
  members: readonly RegistryForward[],
  log: (line: string) => void,
) {
  const seconds = options.quick ? 1 : 2;
  // Long enough to collect the garbage of discovery.
  const warmUpSeconds = options.quick ? 1 : 5;
  const tools = members.reduce((sum, { tools }) => sum + tools, 0);
  const start = () => startGateway({ ...options, registryFolder: folder, outputFile: `${folder}.log` });
  const readyMs: number[] = [];
  const readyMiB: number[] = [];
  const lists = { ns0: [] as number[], small: [] as number[] };

  {
    await using gateway = await start();
    const startedAt = performance.now();
    const waiting = [...members];
    const register = async () => {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
        await gateway.addForward(`to-${next.namespace}`, next.address, next.namespace, next.tools);
      }
    };
    await Promise.all([register(), register(), register(), register()]);
    log(`registry at size: ${tools} tools registered in ${Math.round(performance.now() - startedAt)} ms`);
    await gateway.child.stop();
  }

  return {
    /** Starts the gateway repeatedly and returns the last one after discovery. */
    async startRepeatedly(times: number, log: (line: string) => void): Promise<Gateway> {
      for (let started = 1; ; started++) {
        const gateway = await start();
        readyMs.push(gateway.readyMs);
        readyMiB.push(residentMiB(gateway.child.pid));
        log(`registry at size: ready with ${tools} tools after ${Math.round(gateway.readyMs)} ms`);
        await gateway.waitForForwards(members.length);
        if (started === times) return gateway;
        await gateway.child.stop();
        await gateway[Symbol.asyncDispose]();
      }
    },
    async list(gateway: Gateway, warmUp: boolean): Promise<void> {
      using caller = makeCaller();
      // The small list first, so that garbage of large responses does not affect it.
      for (const namespace of ['small', 'ns0'] as const) {
        const url = gateway.endpoint(namespace);
        const planned = await planLoad(caller, listCase(), url, `${folder}.lua`, gateway.child.pid);
        const result = await load(planned, warmUp ? warmUpSeconds : seconds);
        if (!warmUp) lists[namespace].push(1000 / result.perCpuSecond);
        gateway.child.clearOutput();
      }
    },
    figures: (gateway: Gateway): RegistryFigures => ({
      namespaces: members.length,
      tools,
      readyMs: spread(readyMs),
      readyMiB: spread(readyMiB),
      settledMiB: residentMiB(gateway.child.pid),
      largeListMs: lists.ns0.length > 0 ? spread(lists.ns0) : undefined,
      smallListMs: lists.small.length > 0 ? spread(lists.small) : undefined,
    }),
  };
}

function listCase(): Case {
  const found = cases.find(({ name }) => name === 'list-legacy');
  if (found === undefined) throw new Error('no case list-legacy');
  return found;
}

/** Path of the `sluice` command. */
const SLUICE = fileURLToPath(new URL('../packages/cli/bin/sluice.mjs', import.meta.url));

/** Limit of the time per tool in the largest import, relative to the smallest. */
export const importLimit = 1.5;
/** Differences below this are a tie. */
export const importAim = 1.25;

/** Figures of an import. */
export interface ImportFigures {
  readonly tools: number;
  /** Milliseconds of the whole command. */
  readonly wholeMs: Spread;
  /** Milliseconds per tool, without the time of importing a single tool. */
  readonly toolMs: Spread;
  /** Number of progress lines. */
  readonly progress: number;
}

/**
 * Imports files of each size, each into a new gateway with an empty registry.
 *
 * @throws Error if an import fails, or prints no progress within three seconds
 */
export async function measureImport(
  options: Options,
  folder: string,
  log: (line: string) => void,
): Promise<ImportFigures[]> {
  const { importSizes, importRounds } = options.plan;
  const measured = importSizes.map((tools) => ({
    tools,
    wholeMs: [] as number[],
    toolMs: [] as number[],
    progress: 0,
  }));
  for (let round = 0; round < importRounds; round++) {
    log(`import, round ${round + 1} of ${importRounds}`);
    const { ms: startMs } = await importTools(options, folder, 1);
    for (const figures of round % 2 === 0 ? measured : measured.toReversed()) {
      const { ms, progress } = await importTools(options, folder, figures.tools);
      figures.wholeMs.push(ms);
      figures.toolMs.push((ms - startMs) / figures.tools);
      figures.progress = progress;
    }
  }
  return measured.map(({ tools, wholeMs, toolMs, progress }) => ({
    tools,
    wholeMs: spread(wholeMs),
    toolMs: spread(toolMs),
    progress,
  }));
}

async function importTools(options: Options, folder: string, tools: number): Promise<{ ms: number; progress: number }> {
  const name = `import-${tools}-${performance.now()}`;
  const file = `${folder}/${name}.json`;
  writeFileSync(file, JSON.stringify(Array.from({ length: tools }, (_, index) => tool(index))));
  await using gateway = await startGateway({
    ...options,
    registryFolder: `${folder}/${name}`,
    outputFile: `${folder}/gateway.log`,
  });
  const arguments_ = [SLUICE, 'tools', 'import', file, '--host', gateway.management.href, '--no-auth'];
  const startedAt = performance.now();
  await using command = startChild('sluice', `${folder}/sluice.log`, process.execPath, arguments_);
  await command.waitForExit(120_000);
  const ms = performance.now() - startedAt;
  const output = command.output();
  if (!output.includes(`created ${tools},`)) throw new Error(`sluice tools import of ${tools} tools: ${output}`);
  const progress = output.split('\n').filter((line) => line.includes(` of ${tools} tools`)).length;
  if (ms > 3_000 && progress === 0) throw new Error(`sluice tools import printed no progress in ${Math.round(ms)} ms`);
  return { ms, progress };
}

/** Returns a typical tool: a sentence of description, some properties. */
function tool(index: number): object {
  return {
    name: `crm.customers.search_${index}`,
    description: 'Searches the customers of one region by name, state and date of the last order; answers 50 at most.',
    uri: 'http://127.0.0.1:9/mcp',
    toolType: 'search',
    input_schema: {
      type: 'object',
      properties: {
        region: { type: 'string', enum: ['north', 'south', 'east', 'west'] },
        name: { type: 'string', description: 'Part of the name' },
        since: { type: 'string', format: 'date' },
      },
      required: ['region'],
    },
    labels: { team: `team-${index % 7}` },
  };
}
