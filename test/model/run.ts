import type { JsonValue } from '@sluice/protocol/json/parse';
import { differences, likened, responseDifferences } from './compare.ts';
import { call } from './model.ts';
import { outcomes, restarted, retried } from './outcomes.ts';
import type { ApiRequest, ApiResponse } from './request.ts';
import { type Catalog, copyOf, emptyState, NOTHING, type State, turned } from './state.ts';
import { describe, resolved, type Step, written } from './step.ts';
import { servedBy, viewOf } from './view.ts';
import type { World } from './world.ts';

/** MCP's lists are compared after every so many steps, after a restart and at the end; REST's after each. */
const SERVED_EVERY = 8;

/** Coverage of runs, to detect ineffective tests. */
export class Tally {
  runs = 0;
  calls = 0;
  /** Calls by status. */
  readonly statuses: Record<number, number> = {};
  restarts = { SIGTERM: 0, SIGKILL: 0 };
  /** Groups of concurrent calls. */
  groups = 0;
  /** Calls without a response due to a restart. */
  unanswered = 0;
  /** Comparisons of the whole state, and those with shadowed entries. */
  comparisons = 0;
  shadowed = 0;
  /** Number of times that the order of discoveries, or of concurrent calls, was not the first one assumed. */
  otherOrders = 0;
}

/** A difference between service and model. The message contains the whole run up to there. */
export class Disagreement extends Error {
  constructor(log: readonly string[], differing: readonly string[], ofService: string) {
    super([...log, '', ...differing.map((line) => `  ${line}`), '', 'log of the service:', ofService].join('\n'));
  }
}

/** Runs the steps on an empty registry, comparing responses and state with the model's. Throws {@link Disagreement}. */
export async function run(world: World, steps: readonly Step[], tally: Tally): Promise<void> {
  await world.reset();
  tally.runs++;
  await new Run(world, tally).all(steps);
}

class Run {
  readonly #world: World;
  readonly #tally: Tally;
  readonly #log: string[] = [];
  /** The previous catalog of each upstream. */
  readonly #former = new Map<number, Catalog>();
  #state: State;

  constructor(world: World, tally: Tally) {
    this.#world = world;
    this.#tally = tally;
    this.#state = emptyState(world.upstreams.states);
  }

  async all(steps: readonly Step[]): Promise<void> {
    try {
      await this.#settle([this.#state]);
      for (const [index, step] of steps.entries()) {
        this.#log.push(`${index + 1}. ${describe(step)}`);
        await this.#settle(await this.#take(step));
        if (step.do === 'restart' || index % SERVED_EVERY === 0 || index === steps.length - 1)
          await this.#compareServed();
      }
    } catch (error) {
      if (error instanceof Disagreement) throw error;
      throw new Disagreement(this.#log, [String(error)], this.#world.log);
    }
  }

  /** Runs one step. Returns the states that the registry may be in after it. */
  async #take(step: Step): Promise<Iterable<State>> {
    switch (step.do) {
      case 'call':
        return [await this.#call(resolved(this.#state, step.call))];
      case 'together':
        return this.#together(step);
      case 'restart':
        this.#tally.restarts[step.signal]++;
        await this.#world.restart(step.signal);
        return restarted(this.#state);
      case 'upstream': {
        const { upstream, mode, offers } = step;
        const before = this.#world.upstreams.states[upstream]?.catalog ?? NOTHING;
        const former = this.#former.get(upstream) ?? NOTHING;
        const catalog = typeof offers === 'string' ? turned(before, former, offers) : offers;
        this.#former.set(upstream, before);
        await this.#world.upstreams.set(upstream, { ...(mode && { mode }), ...(catalog && { catalog }) });
        await this.#world.settled();
        return retried({ ...copyOf(this.#state), upstreams: [...this.#world.upstreams.states] });
      }
    }
  }

  async #call(request: ApiRequest): Promise<State> {
    const { state, answer } = call(this.#state, request);
    const actual = await this.#world.send(request);
    this.#count(request, actual);
    const wrong = responseDifferences(actual, answer);
    if (wrong.length > 0) throw new Disagreement(this.#log, wrong, this.#world.log);
    return state;
  }

  async #together({ calls, cut }: Extract<Step, { do: 'together' }>): Promise<Iterable<State>> {
    const requests = calls.map((each) => resolved(this.#state, each));
    this.#tally.groups++;
    const enough = Promise.withResolvers<void>();
    let responded = 0;
    const sent = requests.map(async (request) => {
      const answer = await this.#world.send(request).catch((error: unknown) => {
        if (!cut) throw error;
        this.#tally.unanswered++;
        return undefined;
      });
      if (answer && ++responded === cut?.after) enough.resolve();
      if (answer) this.#count(request, answer);
      return { request, answer };
    });
    const all = Promise.all(sent);
    if (!cut) {
      const ended = await all;
      await this.#world.settled();
      return outcomes(this.#state, ended, false);
    }
    if (cut.after > 0) await Promise.race([enough.promise, all]);
    this.#tally.restarts[cut.signal]++;
    const [ended] = await Promise.all([all, this.#world.end(cut.signal)]);
    await this.#world.restart('SIGKILL');
    return flatten(outcomes(this.#state, ended, cut.signal === 'SIGTERM'), restarted);
  }

  #count(request: ApiRequest, { status, code, message }: ApiResponse): void {
    this.#tally.calls++;
    this.#tally.statuses[status] = (this.#tally.statuses[status] ?? 0) + 1;
    this.#log.push(`     ${written(request)} -> ${status}${message === undefined ? '' : ` ${code} ${message}`}`);
  }

  /** Determines the state of the registry among the possible ones. */
  async #settle(possible: Iterable<State>): Promise<void> {
    const actual = await this.#world.view();
    this.#tally.comparisons++;
    let closest: string[] | undefined;
    let tried = 0;
    for (const state of possible) {
      const wrong = differencesOf(actual, viewOf(state));
      if (wrong.length === 0) {
        this.#state = state;
        if (tried > 0) this.#tally.otherOrders++;
        if (state.entries.some(({ shadowed }) => shadowed)) this.#tally.shadowed++;
        return;
      }
      if (closest === undefined || wrong.length < closest.length) closest = wrong;
      tried++;
    }
    const none = ['the responses match no order of the calls'];
    throw new Disagreement(this.#log, closest ?? none, this.#world.log);
  }

  async #compareServed(): Promise<void> {
    const expected = servedBy(this.#state);
    const wrong = differencesOf(await this.#world.served(Object.keys(expected)), expected);
    if (wrong.length > 0) throw new Disagreement(this.#log, wrong, this.#world.log);
  }
}

function differencesOf(actual: Record<string, JsonValue>, expected: Record<string, JsonValue>): string[] {
  return differences(likened(actual, expected), expected);
}

function* flatten(states: Iterable<State>, next: (state: State) => Iterable<State>): Generator<State> {
  for (const state of states) yield* next(state);
}
