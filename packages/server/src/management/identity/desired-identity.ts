import type { IdentitySettings, StateChange } from '@sluice/contract';
import { isJsonObject, type JsonObject, parseLossless } from '@sluice/protocol/json/parse';
import { diffMembers } from '../../registry/state-difference.ts';

/** Compares the identity of a desired state with the present one. Returns one change, or none. */
export function compareIdentity(wanted: IdentitySettings, present: IdentitySettings | undefined): StateChange[] {
  const members = diffMembers(present ? toJson(present) : {}, toJson(wanted));
  if (members.length === 0) return [];
  const change = { kind: 'identity', name: 'identity', members, notes: [] } as const;
  if (!present) return [{ ...change, action: 'create' }];
  const isNarrowing = members.every(({ member, to }) => NARROWING.get(member) === to);
  return [{ ...change, action: 'update', ...(!isNarrowing && { widens: ['may let other callers in'] }) }];
}

/** Values of members that let nobody in who was out before. */
const NARROWING = new Map<string, unknown>([
  ['anonymous', 'deny'],
  ['inference', true],
]);

function toJson(settings: IdentitySettings): JsonObject {
  const value = parseLossless(JSON.stringify(settings));
  if (!isJsonObject(value)) throw new TypeError('settings are an object');
  return value;
}
