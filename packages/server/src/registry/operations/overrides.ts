import { equal } from '@sluice/protocol/json/equal';
import { isJsonObject, type JsonObject, type JsonValue, parseLossless } from '@sluice/protocol/json/parse';
import type { Discovered, Kind } from '../entries.ts';
import { registryMembers, restName, UPSTREAM } from '../json.ts';

/**
 * Values that stand for "not given" over REST, where these members are always shown: sending them for a member that the
 * upstream has not got changes nothing, and sending an empty text takes the upstream's away (decisions 2.5, 2.6).
 */
const ABSENT: Readonly<Record<Kind, JsonObject>> = {
  tool: { description: '', inputSchema: {} },
  resource: { description: '', mimeType: '' },
  prompt: { description: '', arguments: [] },
};

/**
 * What an operator's full description of a discovered entry changes on the upstream's object: members that differ or
 * are new with their value, members left out with null (decisions 2.5). Members that REST shows from the registry
 * (labels, uri and the like) are not the upstream's and never overridden. `definition` is in MCP's spelling.
 */
export function overridesOf(kind: Kind, discovered: Discovered, definition: JsonObject): JsonObject {
  const parsed = parseLossless(discovered.offers[0]?.json ?? '{}');
  const upstream = new Map(Object.entries(isJsonObject(parsed) ? parsed : {}));
  const wanted = new Map(Object.entries(definition));
  const own = new Set([...registryMembers(kind), UPSTREAM]);
  if (kind === 'resource') own.add('uri').add('uriTemplate');
  const overrides: [string, JsonValue][] = [];
  for (const member of new Set([...upstream.keys(), ...wanted.keys()])) {
    // The schemas of bodies drop `__proto__`, so that its absence says nothing.
    if (own.has(restName(kind, member)) || member === '__proto__') continue;
    const theirs = given(kind, member, upstream.get(member));
    let ours = given(kind, member, wanted.get(member));
    // An empty schema or list is a value of its own where the upstream has one.
    if (ours === undefined && theirs !== undefined && wanted.get(member) !== '') ours = wanted.get(member);
    if (ours === undefined ? theirs !== undefined : theirs === undefined || !equal(ours, theirs)) {
      overrides.push([member, ours ?? null]);
    }
  }
  return Object.fromEntries(overrides);
}

function given(kind: Kind, member: string, value: JsonValue | undefined): JsonValue | undefined {
  const absent = Object.hasOwn(ABSENT[kind], member) ? ABSENT[kind][member] : undefined;
  return value !== undefined && absent !== undefined && equal(value, absent) ? undefined : value;
}
