import { isDeepStrictEqual } from 'node:util';
import type { JsonObject } from '@sluice/protocol/json/parse';
import { readBody, SHAPES, withoutName } from './bodies.ts';
import { addEntry, holderOf, replaceEntry, takeAway } from './claims.ts';
import { lookUp } from './look-up.ts';
import { defaultOf, isApart, isRegistrys, mcpName, pick, restOf, storedMembers } from './members.ts';
import { type ApiRequest, type ApiResponse, conflict } from './request.ts';
import { byPlace, type Entry, type Found, type Kind, type Labels, type State } from './state.ts';

/** Calls on `/api/v1/tools`, `/resources` and `/prompts` (decisions 2.2, 2.5 to 2.7, 4.1, 4.2). */
export function callEntries(state: State, kind: Kind, request: ApiRequest): ApiResponse {
  const { method, name, query = {} } = request;
  if (name === undefined) return method === 'GET' ? list(state, kind, query) : create(state, kind, request);
  if (method === 'PUT') return replace(state, kind, name, request);
  const entry = lookUp(state, kind, name, query);
  if (method === 'GET') return { status: 200, data: restOf(entry) };
  takeAway(state, entry);
  return { status: 200, data: { removed: entry.name } };
}

/** The entries of a kind in list order, shadowed ones included. */
export function listed(state: State, kind: Kind): Entry[] {
  return state.entries.filter((entry) => entry.kind === kind).sort(byPlace);
}

function list(state: State, kind: Kind, { namespace, include }: Readonly<Record<string, string>>): ApiResponse {
  const shown = listed(state, kind)
    .filter((entry) => include === 'shadowed' || !entry.shadowed)
    .filter((entry) => namespace === undefined || entry.namespace === namespace);
  return { status: 200, data: shown.map(restOf) };
}

function create(state: State, kind: Kind, request: ApiRequest): ApiResponse {
  const body = readBody(request.body, SHAPES[kind]);
  const name = String(body.name);
  const namespace = typeof body.namespace === 'string' ? body.namespace : 'default';
  const key = kind === 'resource' ? String(body.location) : name;
  if (holderOf(state, kind, namespace, key)) throw conflict();
  const place = { registered: state.next++, list: 0, position: 0 };
  const labels = labelsOf(body);
  const members = storedMembers(kind, body);
  addEntry(state, { kind, namespace, key, name, place, shadowed: false, labels, members, found: undefined });
  const made = holderOf(state, kind, namespace, key);
  if (!made) throw new Error('a created entry does not exist');
  return { status: 201, data: restOf(made), location: locationOf(state, made) };
}

function replace(state: State, kind: Kind, path: string, request: ApiRequest): ApiResponse {
  const body = readBody(request.body, withoutName(SHAPES[kind]));
  const before = lookUp(state, kind, path, request.query ?? {});
  const name = typeof body.name === 'string' ? body.name : before.name;
  const namespace = typeof body.namespace === 'string' ? body.namespace : before.namespace;
  const location = typeof body.location === 'string' ? body.location : before.key;
  if (before.found) rejectFixed(before, body);
  const key = kind === 'resource' ? location : name;
  if ((key !== before.key || namespace !== before.namespace) && holderOf(state, kind, namespace, key)) throw conflict();
  const after = before.found
    ? changedDiscovered(before, before.found, { ...body, name })
    : { ...before, labels: labelsOf(body), members: storedMembers(kind, body) };
  replaceEntry(state, before, { ...after, name, namespace, key });
  return { status: 200, data: restOf({ ...after, name, namespace, key }) };
}

/**
 * `uri` and `toolType` of a discovered tool are fixed (decisions 2.5); so are location and type of a resource, and the
 * address of a prompt, which has no messages (decisions 2.6, 2.7).
 */
function rejectFixed({ kind, key, members }: Entry, body: JsonObject): void {
  const fixed = { tool: ['uri', 'toolType'], resource: ['type'], prompt: ['configurationURI'] }[kind];
  for (const member of fixed) if (member in body && !isDeepStrictEqual(body[member], members[member])) throw conflict();
  if (kind === 'resource' && body.location !== key) throw conflict();
  if (kind === 'prompt' && Array.isArray(body.messages) && body.messages.length > 0) throw conflict();
}

/** The members that differ from upstream become overrides (decisions 2.5). */
function changedDiscovered(before: Entry, found: Found, body: JsonObject & { name: string }): Entry {
  const { kind } = before;
  const overrides: JsonObject = {};
  const wanted: JsonObject = {};
  for (const [member, value] of Object.entries(body)) if (!isApart(kind, member)) wanted[mcpName(kind, member)] = value;
  for (const member of new Set([...Object.keys(found.object), ...Object.keys(wanted)])) {
    if (isApart(kind, member)) continue;
    const absent = defaultOf(kind, member);
    const [ours, theirs] = [wanted[member] ?? absent, found.object[member] ?? absent];
    if (isDeepStrictEqual(ours, theirs)) continue;
    // An empty text removes the upstream's, if it means that there is none.
    overrides[member] = wanted[member] === '' && absent === '' ? null : (wanted[member] ?? null);
  }
  if (kind === 'resource' && body.name !== upstreamsName(found.object, found.key)) overrides.name = body.name;
  const address: JsonObject = kind === 'prompt' ? pick(before.members, (member) => member === 'configurationURI') : {};
  const members = { ...address, ...pick(body, (member) => isRegistrys(kind, member) && member !== 'messages') };
  return { ...before, labels: survivingLabels(before.labels, labelsOf(body)), members, found: { ...found, overrides } };
}

/** Name of a discovered resource: the upstream's, else its uri. */
export function upstreamsName(object: JsonObject, key: string): string {
  return typeof object.name === 'string' && object.name !== '' ? object.name : key;
}

/** Labels starting with `service.` survive PUT unchanged, except `service.forward_headers` (decisions 2.6). */
function survivingLabels(before: Labels, wanted: Labels): Labels {
  const survives = (label: string) => label.startsWith('service.') && label !== 'service.forward_headers';
  return Object.fromEntries([
    ...Object.entries(wanted).filter(([label]) => !survives(label)),
    ...Object.entries(before).filter(([label]) => survives(label)),
  ]);
}

/** The labels of a body. */
export function labelsOf({ labels }: JsonObject): Labels {
  return Object.fromEntries(Object.entries(labels ?? {}).map(([label, value]) => [label, String(value)]));
}

/** Location of a new entry (decisions 4.1); resources of one name are distinguished by their uri. */
function locationOf(state: State, { kind, name, namespace, key }: Entry): string {
  const shared = state.entries.filter(
    (entry) => entry.kind === kind && entry.namespace === namespace && entry.name === name && !entry.shadowed,
  );
  const uri = kind === 'resource' && shared.length > 1 ? `&uri=${encodeURIComponent(key)}` : '';
  return `/api/v1/${kind}s/${encodeURIComponent(name)}?namespace=${namespace}${uri}`;
}
