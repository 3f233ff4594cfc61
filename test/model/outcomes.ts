import { isJsonObject, parseLossless } from '@sluice/protocol/json/parse';
import { answerDifferences } from './compare.ts';
import { discover } from './discovery.ts';
import { call } from './model.ts';
import type { Answer, ApiRequest } from './request.ts';
import { copyOf, type State } from './state.ts';

/** A call that was made among others, and its answer, if it got one. */
export interface Ended {
  readonly request: ApiRequest;
  readonly answer: Answer | undefined;
}

/** One change of a call: the states that it may leave. None: it cannot have come then. */
type Part = (state: State) => readonly State[];

/**
 * Every state that calls at once may lead to: in some order, those without an answer made or not. `stopping`: the process
 * was told to stop meanwhile, and then waits for no upstream.
 */
export function* outcomes(state: State, calls: readonly Ended[], stopping: boolean): Generator<State> {
  for (const order of interleaved(calls.map((each) => partsOf(each, stopping)))) {
    let possible: readonly State[] = [state];
    for (const part of order) possible = possible.flatMap(part);
    yield* possible;
  }
}

/** After a start every forward is discovered in the background, in whatever order (decisions 1.1). */
export function restarted(state: State): Iterable<State> {
  return retried({ ...copyOf(state), forwards: state.forwards.map((forward) => ({ ...forward, available: false })) });
}

/** A forward that is not available is tried again, in whatever order (decisions 4.3). */
export function* retried(state: State): Generator<State> {
  const due = state.forwards.filter(
    ({ address, available }) => !available && state.upstreams.some((u) => u.address === address && u.mode === 'up'),
  );
  for (const order of interleaved(due.map(({ name }) => [name]))) {
    const after = copyOf(state);
    for (const name of order) discover(after, name);
    yield after;
  }
}

/** Most calls are one change. A forward is stored first and then discovered (decisions 4.3). */
function partsOf({ request, answer }: Ended, stopping: boolean): readonly Part[] {
  if (request.refreshes) return [(state) => refreshed(state, request.name ?? '', answer, stopping)];
  if (request.collection === 'forwards' && request.method === 'POST') {
    const name = nameIn(request.body);
    const register: Part = (state) => registered(state, request, answer);
    const found: Part = (state) => discovered(state, name, answer !== undefined && !stopping);
    return answer && answer.status !== 201 ? [register] : [register, found];
  }
  return [
    (state) => {
      const made = call(state, request);
      if (!answer) return [made.state, state];
      return answerDifferences(answer, made.answer).length === 0 ? [made.state] : [];
    },
  ];
}

/** The forward as it is before anything is known of it: as it would be if nobody answered at its address. */
function registered(state: State, request: ApiRequest, answer: Answer | undefined): readonly State[] {
  const silent = { ...copyOf(state), upstreams: [] };
  const made = call(silent, request);
  const after = { ...made.state, upstreams: state.upstreams };
  if (!answer) return [after, state];
  if (made.answer.status === 201) return answer.status === 201 ? [after] : [];
  return answerDifferences(answer, made.answer).length === 0 ? [after] : [];
}

function discovered(state: State, name: string, surely: boolean): readonly State[] {
  // It may be gone again.
  if (!state.forwards.some((forward) => forward.name === name && !forward.known)) return [state];
  const after = copyOf(state);
  discover(after, name);
  return surely ? [after] : [after, state];
}

/** Whoever removes a forward while it is refreshed has the refresh fail. */
function refreshed(state: State, name: string, answer: Answer | undefined, stopping: boolean): readonly State[] {
  const exists = state.forwards.some((forward) => forward.name === name);
  if (!exists) return !answer || answer.status === 404 || answer.status === 502 ? [state] : [];
  const after = copyOf(state);
  const status = discover(after, name) ? 200 : 502;
  if (!answer) return [after, state];
  if (answer.status === status) return [after];
  return stopping && answer.status === 502 ? [state] : [];
}

function nameIn(body = ''): string {
  try {
    const value = parseLossless(body);
    return isJsonObject(value) ? String(value.name).trim() : '';
  } catch {
    return '';
  }
}

/** All items in every order that keeps each queue's own, the given one first. */
function* interleaved<T>(queues: readonly (readonly T[])[]): Generator<readonly T[]> {
  const waiting = queues.filter((queue) => queue.length > 0);
  if (waiting.length === 0) yield [];
  for (const [at, [first, ...rest]] of waiting.entries()) {
    if (first === undefined) continue;
    for (const others of interleaved(waiting.with(at, rest))) yield [first, ...others];
  }
}
