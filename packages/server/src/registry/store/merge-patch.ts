import { isJsonObject } from '@sluice/protocol/json/parse';

/**
 * The JSON Merge Patch (RFC 7396) that turns one object into another: the members that differ, null for those that are removed.
 * Undefined if there is none, because a member is null.
 */
export function mergePatch(before: object, after: object): Record<string, unknown> | undefined {
  const patch = new Map<string, unknown>();
  const old = new Map(presentMembers(before));
  for (const [name, value] of presentMembers(after)) {
    const was = old.get(name);
    old.delete(name);
    if (was === value) continue;
    if (isJsonObject(was) && isJsonObject(value)) {
      const inner = mergePatch(was, value);
      if (!inner) return undefined;
      if (Object.keys(inner).length > 0) patch.set(name, inner);
    } else if (value === null || containsNull(value)) return undefined;
    else if (JSON.stringify(was) !== JSON.stringify(value)) patch.set(name, value);
  }
  for (const name of old.keys()) patch.set(name, null);
  return Object.fromEntries(patch);
}

/** Applies a JSON Merge Patch to a value. */
export function applyMergePatch(value: unknown, patch: unknown): unknown {
  if (!isJsonObject(patch)) return patch;
  const members = new Map<string, unknown>(isJsonObject(value) ? Object.entries(value) : []);
  for (const [name, change] of Object.entries(patch)) {
    if (change === null) members.delete(name);
    else members.set(name, applyMergePatch(members.get(name), change));
  }
  // Also defines members such as __proto__, which assignments do not.
  return Object.fromEntries(members);
}

function presentMembers(object: object): [string, unknown][] {
  return Object.entries(object).filter(([, value]) => value !== undefined);
}

/** Whether an object in a value has a null member, which a patch would remove. Arrays are replaced as a whole. */
function containsNull(value: unknown): boolean {
  return isJsonObject(value) && Object.values(value).some((member) => member === null || containsNull(member));
}
