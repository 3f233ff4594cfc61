import { makeCaller } from './caller.ts';
import { type Case, cases } from './cases.ts';
import { type Fixture, startFixture } from './fixture.ts';
import { type Gateway, startGateway } from './gateway.ts';
import { load } from './load.ts';
import { caseMessages, checkAnswer } from './measure.ts';
import type { Options } from './options.ts';
import { type Spread, spread } from './statistics.ts';
import { residentMiB } from './usage.ts';

/** Most that a list may cost in a registry full of others' tools, against the same list in a registry of its own. */
export const growthLimit = 1.25;
/** Beneath this it is a tie: rounds differ as much among themselves. */
export const growthAim = 1.1;

/** Tools in each namespace of the registry at size. */
export const toolsPerNamespace = 2_000;

/** Figures of one registry: that with all namespaces, or that with the measured ones alone. */
export interface RegistryFigures {
  readonly namespaces: number;
  readonly tools: number;
  readonly readyMs: Spread;
  /** Resident memory when `/readyz` answered, and after discovery and the lists. */
  readonly readyMiB: Spread;
  readonly settledMiB: number;
  /** CPU milliseconds of one `tools/list`, of the namespace with 2,000 tools and of that with 20. */
  readonly largeListMs: Spread | undefined;
  readonly smallListMs: Spread | undefined;
}

/** The registry at size beside one that holds only what is measured. */
export interface SizeFigures {
  readonly full: RegistryFigures;
  readonly alone: RegistryFigures;
}

/** One forward of the registry: its namespace and where its tools come from. */
interface Member {
  readonly namespace: string;
  readonly address: URL;
  readonly tools: number;
}

/**
 * Fills two registries through the management API, starts the gateway on each of them anew and compares what starting
 * and listing cost.
 */
export async function measureSize(
  options: Options,
  folder: string,
  withLoad: boolean,
  say: (line: string) => void,
): Promise<SizeFigures> {
  const { plan } = options;
  await using large = await startFixture(folder, 'legacy', toolsPerNamespace, 500);
  await using small = await startFixture(folder, 'legacy', 20, 20);
  const measured = [member(large, 'ns0', toolsPerNamespace), member(small, 'small', 20)];
  const others = Array.from({ length: plan.sizeNamespaces - 1 }, (_, index) =>
    member(large, `ns${index + 1}`, toolsPerNamespace),
  );
  const full = await prepare(options, `${folder}/full`, [...measured, ...others], say);
  const alone = await prepare(options, `${folder}/alone`, measured, say);

  await using fullGateway = await full.startOften(plan.sizeStarts, say);
  await using aloneGateway = await alone.startOften(plan.sizeStarts, say);
  if (withLoad) {
    await full.list(fullGateway, true);
    await alone.list(aloneGateway, true);
    for (let round = 0; round < plan.sizeRounds; round++) {
      say(`registry at size, lists, round ${round + 1} of ${plan.sizeRounds}`);
      const lists = [() => full.list(fullGateway, false), () => alone.list(aloneGateway, false)];
      for (const list of round % 2 === 0 ? lists : lists.reverse()) await list();
    }
  }
  return { full: full.figures(fullGateway), alone: alone.figures(aloneGateway) };
}

const member = (fixture: Fixture, namespace: string, tools: number): Member => ({
  namespace,
  address: fixture.endpoint(namespace),
  tools,
});

/** Registers the members in a gateway on a new folder and stops it: what stays is its registry on disk. */
async function prepare(options: Options, folder: string, members: readonly Member[], say: (line: string) => void) {
  const seconds = options.quick ? 1 : 2;
  // Long enough for the garbage of discovery to be gone, too.
  const warmUpSeconds = options.quick ? 1 : 5;
  const tools = members.reduce((sum, { tools }) => sum + tools, 0);
  const start = () => startGateway({ ...options, registryFolder: folder, outputFile: `${folder}.log` });
  const readyMs: number[] = [];
  const readyMiB: number[] = [];
  const lists = { ns0: [] as number[], small: [] as number[] };

  {
    await using gateway = await start();
    const began = performance.now();
    const waiting = [...members];
    const register = async () => {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
        await gateway.addForward(`to-${next.namespace}`, next.address, next.namespace, next.tools);
      }
    };
    await Promise.all([register(), register(), register(), register()]);
    say(`registry at size: ${tools} tools registered in ${Math.round(performance.now() - began)} ms`);
    await gateway.child.stop();
  }

  return {
    /** Starts the gateway on that registry so many times and returns the last one, its discovery over. */
    async startOften(times: number, say: (line: string) => void): Promise<Gateway> {
      for (let started = 1; ; started++) {
        const gateway = await start();
        readyMs.push(gateway.readyMs);
        readyMiB.push(residentMiB(gateway.child.pid));
        say(`registry at size: ready with ${tools} tools after ${Math.round(gateway.readyMs)} ms`);
        await gateway.discovered(members.length);
        if (started === times) return gateway;
        await gateway.child.stop();
        await gateway[Symbol.asyncDispose]();
      }
    },
    async list(gateway: Gateway, warmUp: boolean): Promise<void> {
      using caller = makeCaller();
      // The small one first: what is left over from answers of a megabyte is not its doing.
      for (const namespace of ['small', 'ns0'] as const) {
        const url = gateway.endpoint(namespace);
        const messages = await caseMessages(caller, listCase(), url);
        const bytes = messages[0] === undefined ? 0 : await checkAnswer(caller, listCase(), url, messages[0]);
        const result = await load(
          `${folder}.lua`,
          url,
          messages,
          warmUp ? warmUpSeconds : seconds,
          bytes,
          gateway.child.pid,
        );
        if (!warmUp) lists[namespace].push(1000 / result.perCpuSecond);
        gateway.child.forget();
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
  if (found === undefined) throw new Error('there is no case list-legacy');
  return found;
}
