import type { JsonValue } from '@sluice/protocol/json/parse';
import { differences, normalized, responseDifferences } from './compare.ts';
import { call } from './model.ts';
import { outcomes, restarted, retried } from './outcomes.ts';
import type { ApiRequest, ApiResponse } from './request.ts';
import { type Catalog, changeCatalog, copyOf, EMPTY_CATALOG, emptyState, type State } from './state.ts';
import { describe, formatRequest, resolveStep, type Step } from './step.ts';
import type { TestSystem } from './test-system.ts';
import { servedBy, viewOf } from './view.ts';

/** MCP's lists are compared after every so many steps, after a restart and at the end; REST's after each. */
const MCP_COMPARISON_INTERVAL = 8;

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
export class ModelMismatch extends Error {
  constructor(log: readonly string[], differing: readonly string[], ofService: string) {
    super([...log, '', ...differing.map((line) => `  ${line}`), '', 'log of the service:', ofService].join('\n'));
  }
}

/** Runs the steps on an empty registry, comparing responses and state with the model's. Throws {@link ModelMismatch}. */
export async function run(system: TestSystem, steps: readonly Step[], tally: Tally): Promise<void> {
  await system.reset();
  tally.runs++;
  await new Run(system, tally).all(steps);
}

class Run {
  readonly #system: TestSystem;
  readonly #tally: Tally;
  readonly #log: string[] = [];
  /** The previous catalog of each upstream. */
  readonly #previous = new Map<number, Catalog>();
  #state: State;

  constructor(system: TestSystem, tally: Tally) {
    this.#system = system;
    this.#tally = tally;
    this.#state = emptyState(system.upstreams.states);
  }

  async all(steps: readonly Step[]): Promise<void> {
    try {
      await this.#matchState([this.#state]);
      for (const [index, step] of steps.entries()) {
        this.#log.push(`${index + 1}. ${describe(step)}`);
        await this.#matchState(await this.#execute(step));
        if (step.kind === 'restart' || index % MCP_COMPARISON_INTERVAL === 0 || index === steps.length - 1)
          await this.#compareServed();
      }
    } catch (error) {
      if (error instanceof ModelMismatch) throw error;
      throw new ModelMismatch(this.#log, [String(error)], this.#system.log);
    }
  }

  /** Runs one step. Returns the states that the registry may be in after it. */
  async #execute(step: Step): Promise<Iterable<State>> {
    switch (step.kind) {
      case 'call':
        return [await this.#call(resolveStep(this.#state, step.call))];
      case 'concurrent':
        return this.#callConcurrently(step);
      case 'restart':
        this.#tally.restarts[step.signal]++;
        await this.#system.restart(step.signal);
        return restarted(this.#state);
      case 'upstream': {
        const { upstream, mode, offers } = step;
        const before = this.#system.upstreams.states[upstream]?.catalog ?? EMPTY_CATALOG;
        const previous = this.#previous.get(upstream) ?? EMPTY_CATALOG;
        const catalog = typeof offers === 'string' ? changeCatalog(before, previous, offers) : offers;
        this.#previous.set(upstream, before);
        await this.#system.upstreams.set(upstream, { ...(mode && { mode }), ...(catalog && { catalog }) });
        await this.#system.settled();
        return retried({ ...copyOf(this.#state), upstreams: [...this.#system.upstreams.states] });
      }
    }
  }

  async #call(request: ApiRequest): Promise<State> {
    const { state, answer } = call(this.#state, request);
    const actual = await this.#system.send(request);
    this.#count(request, actual);
    const differing = responseDifferences(actual, answer);
    if (differing.length > 0) throw new ModelMismatch(this.#log, differing, this.#system.log);
    return state;
  }

  async #callConcurrently({ calls, interruption }: Extract<Step, { kind: 'concurrent' }>): Promise<Iterable<State>> {
    const requests = calls.map((each) => resolveStep(this.#state, each));
    this.#tally.groups++;
    const interrupted = Promise.withResolvers<void>();
    let responded = 0;
    const sent = requests.map(async (request) => {
      const answer = await this.#system.send(request).catch((error: unknown) => {
        if (!interruption) throw error;
        this.#tally.unanswered++;
        return undefined;
      });
      if (answer && ++responded === interruption?.after) interrupted.resolve();
      if (answer) this.#count(request, answer);
      return { request, answer };
    });
    const all = Promise.all(sent);
    if (!interruption) {
      const ended = await all;
      await this.#system.settled();
      return outcomes(this.#state, ended, false);
    }
    if (interruption.after > 0) await Promise.race([interrupted.promise, all]);
    this.#tally.restarts[interruption.signal]++;
    const [ended] = await Promise.all([all, this.#system.end(interruption.signal)]);
    await this.#system.restart('SIGKILL');
    return flatten(outcomes(this.#state, ended, interruption.signal === 'SIGTERM'), restarted);
  }

  #count(request: ApiRequest, { status, code, message }: ApiResponse): void {
    this.#tally.calls++;
    this.#tally.statuses[status] = (this.#tally.statuses[status] ?? 0) + 1;
    this.#log.push(`     ${formatRequest(request)} -> ${status}${message === undefined ? '' : ` ${code} ${message}`}`);
  }

  /** Determines the state of the registry among the possible ones. */
  async #matchState(possible: Iterable<State>): Promise<void> {
    const actual = await this.#system.view();
    this.#tally.comparisons++;
    let closest: string[] | undefined;
    let rejected = 0;
    for (const state of possible) {
      const differing = differencesOf(actual, viewOf(state));
      if (differing.length === 0) {
        this.#state = state;
        if (rejected > 0) this.#tally.otherOrders++;
        if (state.entries.some(({ shadowed }) => shadowed)) this.#tally.shadowed++;
        return;
      }
      if (closest === undefined || differing.length < closest.length) closest = differing;
      rejected++;
    }
    const none = ['the responses match no order of the calls'];
    throw new ModelMismatch(this.#log, closest ?? none, this.#system.log);
  }

  async #compareServed(): Promise<void> {
    const expected = servedBy(this.#state);
    const differing = differencesOf(await this.#system.served(Object.keys(expected)), expected);
    if (differing.length > 0) throw new ModelMismatch(this.#log, differing, this.#system.log);
  }
}

function differencesOf(actual: Record<string, JsonValue>, expected: Record<string, JsonValue>): string[] {
  return differences(normalized(actual, expected), expected);
}

function* flatten(states: Iterable<State>, next: (state: State) => Iterable<State>): Generator<State> {
  for (const state of states) yield* next(state);
}
