import { isDeepStrictEqual } from 'node:util';
import { isDotName } from '@sluice/contract';
import type { JsonObject } from '@sluice/protocol/json/parse';
import { readBody, SHAPES, withoutName } from './bodies.ts';
import { addEntry, removeEntry, replaceEntry, servedEntryOf } from './claims.ts';
import { lookUp } from './look-up.ts';
import { defaultOf, isRegistryMember, isSeparateMember, mcpName, pick, restOf, storedMembers } from './members.ts';
import { type ApiRequest, type ApiResponse, conflict, Rejection } from './request.ts';
import { byListPosition, type Discovered, type Entry, type Kind, type Labels, type State } from './state.ts';

/** Calls on `/api/v1/tools`, `/resources` and `/prompts`. */
export function callEntries(state: State, kind: Kind, request: ApiRequest): ApiResponse {
  const { method, name, query = {} } = request;
  if (name === undefined) return method === 'GET' ? list(state, kind, query) : create(state, kind, request);
  if (method === 'PUT') return replace(state, kind, name, request);
  const entry = lookUp(state, kind, name, query);
  if (method === 'GET') return { status: 200, data: restOf(entry) };
  removeEntry(state, entry);
  keepState(state, entry);
  return { status: 200, data: { removed: entry.name } };
}

/** What operators changed of a discovered entry applies again when it returns. */
function keepState(state: State, entry: Entry): void {
  state.forwards = state.forwards.map((forward) =>
    forward.name === entry.discovered?.forward
      ? { ...forward, removedEntries: [...forward.removedEntries, entry] }
      : forward,
  );
}

/** The entries of a kind in list order, shadowed ones included. */
export function listed(state: State, kind: Kind): Entry[] {
  return state.entries.filter((entry) => entry.kind === kind).sort(byListPosition);
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
  if (servedEntryOf(state, kind, namespace, key)) throw conflict();
  const listPosition = { registered: state.next++, list: 0, position: 0 };
  const labels = labelsOf(body);
  const members = storedMembers(kind, body);
  addEntry(state, {
    kind,
    namespace,
    key,
    name,
    listPosition,
    shadowed: false,
    enabled: body.enabled !== false,
    labels,
    members,
    discovered: undefined,
  });
  const made = servedEntryOf(state, kind, namespace, key);
  if (!made) throw new Error('a created entry does not exist');
  return { status: 201, data: restOf(made), location: locationOf(state, made) };
}

function replace(state: State, kind: Kind, path: string, request: ApiRequest): ApiResponse {
  const body = readBody(request.body, withoutName(SHAPES[kind]));
  const before = lookUp(state, kind, path, request.query ?? {});
  const name = typeof body.name === 'string' ? body.name : before.name;
  const namespace = typeof body.namespace === 'string' ? body.namespace : before.namespace;
  const location = typeof body.location === 'string' ? body.location : before.key;
  if (before.discovered) rejectFixed(before, body);
  if (isDotName(name) && name !== before.name && name !== upstreamName(state, before))
    throw new Rejection(400, 'BAD_REQUEST');
  const key = kind === 'resource' ? location : name;
  if ((key !== before.key || namespace !== before.namespace) && servedEntryOf(state, kind, namespace, key))
    throw conflict();
  const after = before.discovered
    ? changedDiscovered(before, before.discovered, { ...body, name })
    : { ...before, labels: labelsOf(body), members: storedMembers(kind, body) };
  const enabled = typeof body.enabled === 'boolean' ? body.enabled : before.enabled;
  replaceEntry(state, before, { ...after, name, namespace, key, enabled });
  return { status: 200, data: restOf({ ...after, name, namespace, key, enabled }) };
}

/** The name under which an upstream's entry is registered without a rename. */
function upstreamName({ forwards }: State, { kind, discovered }: Entry): string | undefined {
  if (!discovered) return undefined;
  const { object, key, forward } = discovered;
  if (kind === 'resource') return resourceName(object, key);
  return `${forwards.find(({ name }) => name === forward)?.prefix ?? ''}${key}`;
}

/**
 * `uri` and `toolType` of a discovered tool are fixed; so are location and type of a resource, and the address of a prompt, which
 * has no messages.
 */
function rejectFixed({ kind, key, members }: Entry, body: JsonObject): void {
  const fixed = { tool: ['uri', 'toolType'], resource: ['type'], prompt: ['configurationURI'] }[kind];
  for (const member of fixed) if (member in body && !isDeepStrictEqual(body[member], members[member])) throw conflict();
  if (kind === 'resource' && body.location !== key) throw conflict();
  if (kind === 'prompt' && Array.isArray(body.messages) && body.messages.length > 0) throw conflict();
}

/** The members that differ from upstream become overrides. */
function changedDiscovered(before: Entry, found: Discovered, body: JsonObject & { name: string }): Entry {
  const { kind } = before;
  const overrides: JsonObject = {};
  const wanted: JsonObject = {};
  for (const [member, value] of Object.entries(body))
    if (!isSeparateMember(kind, member)) wanted[mcpName(kind, member)] = value;
  for (const member of new Set([...Object.keys(found.object), ...Object.keys(wanted)])) {
    if (isSeparateMember(kind, member)) continue;
    const absent = defaultOf(kind, member);
    const [wantedValue, upstreamValue] = [wanted[member] ?? absent, found.object[member] ?? absent];
    if (isDeepStrictEqual(wantedValue, upstreamValue)) continue;
    // An empty text removes the upstream's, if it means that there is none.
    overrides[member] = wanted[member] === '' && absent === '' ? null : (wanted[member] ?? null);
  }
  if (kind === 'resource' && body.name !== resourceName(found.object, found.key)) overrides.name = body.name;
  const address: JsonObject = kind === 'prompt' ? pick(before.members, (member) => member === 'configurationURI') : {};
  const members = { ...address, ...pick(body, (member) => isRegistryMember(kind, member) && member !== 'messages') };
  return {
    ...before,
    labels: survivingLabels(before.labels, labelsOf(body)),
    members,
    discovered: { ...found, overrides },
  };
}

/** Name of a discovered resource: the upstream's, else its uri. */
export function resourceName(object: JsonObject, key: string): string {
  return typeof object.name === 'string' && object.name !== '' ? object.name : key;
}

/** Labels starting with `service.` survive PUT unchanged, except `service.forward_headers`. */
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

/** Location of a new entry; resources of one name are distinguished by their uri. */
function locationOf(state: State, { kind, name, namespace, key }: Entry): string {
  const shared = state.entries.filter(
    (entry) => entry.kind === kind && entry.namespace === namespace && entry.name === name && !entry.shadowed,
  );
  const uri = kind === 'resource' && shared.length > 1 ? `&uri=${encodeURIComponent(key)}` : '';
  return `/api/v1/${kind}s/${encodeURIComponent(name)}?namespace=${namespace}${uri}`;
}
