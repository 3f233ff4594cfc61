import type { JsonObject } from '@sluice/protocol/json/parse';
import { readBody, SHAPES, withoutName } from './bodies.ts';
import { removeEntry, replaceEntry } from './claims.ts';
import { byText } from './compare.ts';
import { labelsOf } from './entries.ts';
import { removeForward } from './forwards.ts';
import { type ApiRequest, type ApiResponse, conflict, notFound } from './request.ts';
import { byListPosition, type Entry, KINDS, type Labels, type State } from './state.ts';

/** Calls on `/api/v1/namespaces`. */
export function callNamespaces(state: State, { method, name, query = {}, body }: ApiRequest): ApiResponse {
  if (name === undefined)
    return method === 'GET' ? { status: 200, data: state.namespaces.map(shown) } : create(state, body);
  const labels = method === 'PUT' ? labelsOf(readBody(body, withoutName(SHAPES.namespace))) : {};
  const found = state.namespaces.find((namespace) => namespace.name === name);
  if (!found) throw notFound('namespace', name);
  if (method === 'GET') return { status: 200, data: shown(found) };
  if (method === 'DELETE') return remove(state, name, query.cascade === 'true');
  state.namespaces[state.namespaces.indexOf(found)] = { name, labels };
  return { status: 200, data: shown({ name, labels }) };
}

function create(state: State, text: string | undefined): ApiResponse {
  const body = readBody(text, SHAPES.namespace);
  const name = String(body.name);
  const known = state.namespaces.find((namespace) => namespace.name === name);
  if (known) return { status: 200, data: shown(known) };
  const made = { name, labels: labelsOf(body) };
  state.namespaces.push(made);
  return { status: 201, data: shown(made), location: `/api/v1/namespaces/${name}` };
}

function remove(state: State, name: string, cascade: boolean): ApiResponse {
  if (name === 'default') throw conflict();
  const pending = (kind: string) =>
    state.entries.filter((entry) => entry.kind === kind && entry.namespace === name).length;
  const forwards = state.forwards.filter((forward) => forward.namespace === name);
  const counts = {
    tools: pending('tool'),
    resources: pending('resource'),
    prompts: pending('prompt'),
    forwards: forwards.length,
  };
  if (!cascade && Object.values(counts).some((count) => count > 0)) throw conflict(counts);
  for (const forward of forwards) removeForward(state, forward);
  const disabled = returnMoved(state, name);
  for (;;) {
    const entry = state.entries.find(({ namespace }) => namespace === name);
    if (!entry) break;
    removeEntry(state, entry);
  }
  state.namespaces = state.namespaces.filter((namespace) => namespace.name !== name);
  return { status: 200, data: { removed: name, ...(disabled.length > 0 && { disabled }) } };
}

/** Entries that were moved there are disabled in the namespace of their forward; absent ones as well. */
function returnMoved(state: State, from: string): JsonObject[] {
  const returned: Entry[] = [];
  const atHome = (entry: Entry): Entry => {
    const home = state.forwards.find(({ name }) => name === entry.discovered?.forward);
    if (!home) throw new Error('the forward of an entry does not exist');
    const after = { ...entry, namespace: home.namespace, enabled: false };
    returned.push(after);
    return after;
  };
  const moved = state.entries.filter(({ namespace, discovered }) => namespace === from && discovered);
  for (const kind of KINDS) {
    for (const { discovered } of moved.filter((entry) => entry.kind === kind).sort(byListPosition)) {
      const now = state.entries.find(
        (entry) =>
          entry.kind === kind &&
          entry.discovered?.key === discovered?.key &&
          entry.discovered?.forward === discovered?.forward,
      );
      if (now) replaceEntry(state, now, atHome(now));
    }
  }
  state.forwards = state.forwards.map((forward) => ({
    ...forward,
    removedEntries: forward.removedEntries.map((entry) => (entry.namespace === from ? atHome(entry) : entry)),
  }));
  return returned
    .map(
      ({ kind, name, namespace, discovered }): JsonObject => ({
        kind,
        name,
        namespace,
        forward: discovered?.forward ?? '',
      }),
    )
    .sort(byText);
}

function shown({ name, labels }: { readonly name: string; readonly labels: Labels }) {
  return { name, labels: { ...labels } };
}
