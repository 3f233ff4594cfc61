import { isJsonObject, parseLossless } from '@sluice/protocol/json/parse';
import { responseDifferences } from './compare.ts';
import { discover } from './discovery.ts';
import { call } from './model.ts';
import type { ApiRequest, ApiResponse } from './request.ts';
import { copyOf, type State } from './state.ts';

/** One of several concurrent calls, and its response, if there was one. */
export interface Ended {
  readonly request: ApiRequest;
  readonly answer: ApiResponse | undefined;
}

/** One change of a call: the possible following states. None: impossible in this order. */
type Part = (state: State) => readonly State[];

/**
 * All possible states after concurrent calls: in any order, those without a response executed or not. `stopping`: the
 * process received a signal meanwhile, and does not wait for upstreams.
 */
export function* outcomes(state: State, calls: readonly Ended[], stopping: boolean): Generator<State> {
  for (const order of interleaved(calls.map((each) => partsOf(each, stopping)))) {
    let possible: readonly State[] = [state];
    for (const part of order) possible = possible.flatMap(part);
    yield* possible;
  }
}

/** After a start every forward is discovered in the background, in any order. */
export function restarted(state: State): Iterable<State> {
  return retried({ ...copyOf(state), forwards: state.forwards.map((forward) => ({ ...forward, available: false })) });
}

/** An unavailable forward is retried, in any order. */
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

/** Most calls are one change. A forward is stored first and then discovered. */
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
      return responseDifferences(answer, made.answer).length === 0 ? [made.state] : [];
    },
  ];
}

/** The forward before its discovery: as if its upstream were unreachable. */
function registered(state: State, request: ApiRequest, response: ApiResponse | undefined): readonly State[] {
  const silent = { ...copyOf(state), upstreams: [] };
  const made = call(silent, request);
  const after = { ...made.state, upstreams: state.upstreams };
  if (!response) return [after, state];
  if (made.answer.status === 201) return response.status === 201 ? [after] : [];
  return responseDifferences(response, made.answer).length === 0 ? [after] : [];
}

function discovered(state: State, name: string, surely: boolean): readonly State[] {
  // It may have been removed.
  if (!state.forwards.some((forward) => forward.name === name && !forward.known)) return [state];
  const after = copyOf(state);
  discover(after, name);
  return surely ? [after] : [after, state];
}

/** Removing a forward during its refresh fails the refresh. */
function refreshed(state: State, name: string, response: ApiResponse | undefined, stopping: boolean): readonly State[] {
  const exists = state.forwards.some((forward) => forward.name === name);
  if (!exists) return !response || response.status === 404 || response.status === 502 ? [state] : [];
  const after = copyOf(state);
  const status = discover(after, name) ? 200 : 502;
  if (!response) return [after, state];
  if (response.status === status) return [after];
  return stopping && response.status === 502 ? [state] : [];
}

function nameIn(body = ''): string {
  try {
    const value = parseLossless(body);
    return isJsonObject(value) ? String(value.name).trim() : '';
  } catch {
    return '';
  }
}

/** All interleavings of the queues, the given one first. */
function* interleaved<T>(queues: readonly (readonly T[])[]): Generator<readonly T[]> {
  const waiting = queues.filter((queue) => queue.length > 0);
  if (waiting.length === 0) yield [];
  for (const [at, [first, ...rest]] of waiting.entries()) {
    if (first === undefined) continue;
    for (const others of interleaved(waiting.with(at, rest))) yield [first, ...others];
  }
}
