import type { JsonObject } from '@sluice/protocol/json/parse';
import { readBody, SHAPES } from './bodies.ts';
import { removeEntry } from './claims.ts';
import { discover } from './discovery.ts';
import { labelsOf } from './entries.ts';
import { type ApiRequest, type ApiResponse, conflict, notFound, Rejection } from './request.ts';
import { ensureNamespace, type Forward, type State } from './state.ts';

/** Calls on `/api/v1/forwards`. */
export function callForwards(state: State, { method, name, refreshes, query = {}, body }: ApiRequest): ApiResponse {
  if (name === undefined) {
    if (method === 'POST') return add(state, body);
    const { namespace } = query;
    const shown = state.forwards.filter((forward) => namespace === undefined || forward.namespace === namespace);
    return { status: 200, data: shown.map((forward) => forwardOf(state, forward)) };
  }
  const forward = state.forwards.find((each) => each.name === name);
  if (!forward) throw notFound('forward', name);
  if (refreshes) return refresh(state, forward);
  if (method === 'GET') return { status: 200, data: forwardOf(state, forward) };
  removeForward(state, forward);
  return { status: 200, data: { removed: name } };
}

/** Removes all of its discovered entries, but no manual ones. */
export function removeForward(state: State, { name }: Forward): void {
  for (const entry of [...state.entries].filter(({ discovered }) => discovered?.forward === name)) {
    const now = state.entries.find(
      ({ kind, discovered }) =>
        kind === entry.kind && discovered?.forward === name && discovered.key === entry.discovered?.key,
    );
    if (now) removeEntry(state, now);
  }
  state.forwards = state.forwards.filter((forward) => forward.name !== name);
}

/**
 * The forward as returned by the API. Specified parts of `statusMessage` are its presence and the names in it: here a
 * list of the expected texts. Of `serverInfo` only the name is compared.
 */
function forwardOf(state: State, forward: Forward): JsonObject {
  const { name, address, namespace, labels, prefix, available, known } = forward;
  const names = state.entries
    .filter((entry) => entry.shadowed && entry.discovered?.forward === name)
    .map(({ key }) => key);
  const silent = available && names.length === 0 && forward.skipped === 0;
  return {
    ...{ name, address, namespace, labels: { ...labels }, available },
    ...(prefix !== '' && { prefix }),
    ...(!silent && { statusMessage: names }),
    ...(known && { serverInfo: 'raw' }),
    ...countsOf(state, name),
  };
}

/** Registers it, and discovers it unless its upstream fails. */
function add(state: State, text: string | undefined): ApiResponse {
  const body = readBody(text, SHAPES.forward);
  const name = String(body.name);
  if (state.forwards.some((forward) => forward.name === name)) throw conflict();
  const namespace = typeof body.namespace === 'string' ? body.namespace : 'default';
  ensureNamespace(state, namespace);
  state.forwards.push({
    ...{ name, namespace, address: String(body.address).trim(), labels: labelsOf(body) },
    prefix: typeof body.prefix === 'string' ? body.prefix : '',
    registered: state.next++,
    ...{ available: false, known: false, skipped: 0, removedEntries: [] },
  });
  discover(state, name);
  const added = state.forwards.find((forward) => forward.name === name);
  if (!added) throw new Error('an added entry does not exist');
  return { status: 201, data: forwardOf(state, added), location: `/api/v1/forwards/${encodeURIComponent(name)}` };
}

function refresh(state: State, { name }: Forward): ApiResponse {
  // A failing refresh is not an error: the forward becomes unavailable.
  if (!discover(state, name)) return new Rejection(502, 'BAD_GATEWAY').answer;
  return { status: 200, data: { refreshed: name, ...countsOf(state, name) } };
}

/** Current counts, shadowed entries included (resources include templates). */
function countsOf(state: State, name: string) {
  const count = (kind: string) =>
    state.entries.filter((entry) => entry.kind === kind && entry.discovered?.forward === name).length;
  return {
    tools_discovered: count('tool'),
    resources_discovered: count('resource'),
    prompts_discovered: count('prompt'),
  };
}
