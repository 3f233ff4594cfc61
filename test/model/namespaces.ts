import { readBody, SHAPES, withoutName } from './bodies.ts';
import { removeEntry } from './claims.ts';
import { labelsOf } from './entries.ts';
import { removeForward } from './forwards.ts';
import { type ApiRequest, type ApiResponse, conflict, notFound } from './request.ts';
import type { Labels, State } from './state.ts';

/** Calls on `/api/v1/namespaces` (decisions 2.3, 4.1, 4.2). */
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
  for (;;) {
    const entry = state.entries.find(({ namespace }) => namespace === name);
    if (!entry) break;
    removeEntry(state, entry);
  }
  state.namespaces = state.namespaces.filter((namespace) => namespace.name !== name);
  return { status: 200, data: { removed: name } };
}

function shown({ name, labels }: { readonly name: string; readonly labels: Labels }) {
  return { name, labels: { ...labels } };
}
