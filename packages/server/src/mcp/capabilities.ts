/**
 * Sets of client capabilities: an upstream may list other things to a client that can sample or be elicited, so
 * catalogues and shared sessions are kept per set (mcp 4).
 */

import { isJsonObject, type JsonObject } from '@sluice/json/lossless';

import type { Era } from './protocol.ts';

/** The `capabilities` of `initialize`, or the modern `_meta` member: parsed JSON, unknown members included. */
export type ClientCapabilities = Readonly<JsonObject>;

/** The set of a client that can do nothing. Discovery asks with it from the beginning. */
export const NO_CAPABILITIES: ClientCapabilities = {};

/** The set of a client that can do all that an upstream may ask of one. Discovery asks with it from the beginning. */
export const FULL_CAPABILITIES: ClientCapabilities = { elicitation: { form: {}, url: {} }, roots: {}, sampling: {} };

/** Deeper members do not tell sets apart: what clients declare comes from outside, and calls nest only so deep. */
const MAX_DEPTH = 16;

/**
 * A text that is equal for sets that mean the same: members sorted, `listChanged` (whose notices we answer ourselves)
 * and members that are null or false left out, an `elicitation` without a mode read as form mode.
 */
export function capabilityKey(capabilities: ClientCapabilities): string {
  return JSON.stringify(normal(capabilities, 0));
}

/**
 * Of the variants that are known, the one to serve a client with this set: the equal one, else the largest one that
 * claims nothing the client lacks; of equally large ones the first. Undefined when every one claims too much.
 */
export function chooseVariant<Variant extends { readonly capabilities: ClientCapabilities }>(
  variants: Iterable<Variant>,
  capabilities: ClientCapabilities,
): Variant | undefined {
  const wanted = normal(capabilities, 0);
  let best: Variant | undefined;
  let bestSize = -1;
  for (const variant of variants) {
    const offered = normal(variant.capabilities, 0);
    const size = sizeOf(offered);
    if (size > bestSize && covers(wanted, offered)) {
      best = variant;
      bestSize = size;
    }
  }
  return best;
}

function normal(value: unknown, depth: number): unknown {
  if (Array.isArray(value) && depth < MAX_DEPTH) return value.map((element) => normal(element, depth + 1));
  if (typeof value !== 'object' || value === null || JSON.isRawJSON(value)) return value;
  if (depth === MAX_DEPTH) return {};
  const members = Object.entries(value)
    .filter(([key, member]) => key !== 'listChanged' && member !== null && member !== false)
    .map(([key, member]): [string, unknown] => [key, normal(member, depth + 1)])
    .sort(([a], [b]) => (a < b ? -1 : 1));
  if (depth === 0) {
    const elicitation = members.find(([key]) => key === 'elicitation');
    if (elicitation !== undefined && sizeOf(elicitation[1]) === 1) elicitation[1] = { form: {} };
  }
  return Object.fromEntries(members);
}

/** True when everything in `part` is in `whole` too. Both are normal. */
function covers(whole: unknown, part: unknown): boolean {
  if (!isJsonObject(part)) return JSON.stringify(whole) === JSON.stringify(part);
  if (!isJsonObject(whole)) return false;
  return Object.entries(part).every(([key, member]) => Object.hasOwn(whole, key) && covers(whole[key], member));
}

/** How many members a normal set has, at every depth, itself counted. */
function sizeOf(value: unknown): number {
  if (!isJsonObject(value)) return 1;
  return Object.values(value).reduce((sum: number, member) => sum + sizeOf(member), 1);
}

/** Names one catalogue among its forward's: the era and the canonical capability set that it was read with. */
export function catalogueKey(era: Era, capabilities: ClientCapabilities): string {
  return `${era}:${capabilityKey(capabilities)}`;
}
