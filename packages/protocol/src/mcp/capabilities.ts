/**
 * Sets of client capabilities: an upstream may list other things to a client that can sample or be elicited, so
 * catalogues and shared sessions are kept per set (mcp 4).
 */
/**
 * What an upstream of one era may ask of a client of the other (mcp 5): questions cross, whatever hangs on methods or
 * notices that the other era does not have stays behind.
 */
import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/protocol/json/parse';
import { lastSegment } from '../../../server/src/mcp/server-info.ts';
import { type Era, META_LOG_LEVEL } from './constants.ts';
import type { RequestMessage } from './message.ts';

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

/** Capabilities that let an upstream ask the client something in the middle of a call. */
const ASKS = ['elicitation', 'sampling', 'roots'] as const;

/**
 * What a client of one era declares towards an upstream of the other: as the client wrote it, without tasks (a
 * capability of 2025-11-25, an extension in 2026-07-28: their methods do not cross) and without `roots.listChanged`,
 * whose notices exist in one era only. When the client cannot be asked (`askable` false), without what asks.
 */
export function crossedCapabilities(capabilities: ClientCapabilities, askable: boolean): JsonObject {
  const crossed: JsonObject = { ...capabilities };
  delete crossed.tasks;
  if (!askable) for (const name of ASKS) delete crossed[name];
  if (isJsonObject(crossed.roots)) crossed.roots = without(crossed.roots, (key) => key === 'listChanged');
  if (isJsonObject(crossed.extensions)) {
    crossed.extensions = without(crossed.extensions, (key) => lastSegment(key) === 'tasks');
  }
  return crossed;
}

/** Longer ones are no honest description of a client, and sessions upstream are told apart by them. */
const MAX_KEY_LENGTH = 4096;

/** What a legacy upstream is told of a modern client that it may ask: nothing of one that describes itself at length. */
export function askedCapabilities(capabilities: ClientCapabilities): JsonObject {
  const crossed = crossedCapabilities(capabilities, true);
  return capabilityKey(crossed).length <= MAX_KEY_LENGTH ? crossed : {};
}

/** True when the client declares that it can be asked anything at all. */
export function supportsServerRequests(capabilities: ClientCapabilities): boolean {
  return ASKS.some((name) => declared(capabilities[name]));
}

/**
 * What a client would have to declare to be sent this request: an elicitation of its mode (form, where it names none),
 * sampling (with tools where it comes with some), roots. Undefined for a request that no client is sent.
 */
export function neededFor(method: string, params: JsonValue | undefined): Record<string, JsonObject> | undefined {
  const { mode, tools, toolChoice }: JsonObject = isJsonObject(params) ? params : {};
  switch (method) {
    case 'elicitation/create':
      if ((mode ?? 'form') === 'form') return { elicitation: { form: {} } };
      return mode === 'url' ? { elicitation: { url: {} } } : undefined;
    case 'sampling/createMessage':
      return { sampling: declared(tools) || declared(toolChoice) ? { tools: {} } : {} };
    case 'roots/list':
      return { roots: {} };
    default:
      return undefined;
  }
}

/** Whether a client with these capabilities may be sent this request. */
export function answersQuestion(
  capabilities: ClientCapabilities,
  method: string,
  params: JsonValue | undefined,
): boolean {
  const needed = neededFor(method, params);
  return needed !== undefined && declares(capabilities, needed);
}

/** Whether these capabilities have all of what is needed, as {@link neededFor} says it. */
export function declares(capabilities: ClientCapabilities, needed: Readonly<Record<string, JsonObject>>): boolean {
  return Object.entries(needed).every(([name, features]) => {
    const own = capabilities[name];
    return declared(own) && Object.keys(features).every((feature) => has(own, feature));
  });
}

function without(value: JsonObject, drop: (key: string) => boolean): JsonObject {
  return Object.fromEntries(Object.entries(value).filter(([key]) => !drop(key)));
}

/** Null and false declare nothing. */
function declared(value: JsonValue | undefined): boolean {
  return value !== undefined && value !== null && value !== false;
}

/** Clients from before there were modes declare none: that is form (2025-11-25, "Elicitation"). */
function has(capability: JsonValue | undefined, feature: string): boolean {
  if (!isJsonObject(capability)) return feature === 'form';
  if (Object.hasOwn(capability, feature) && declared(capability[feature])) return true;
  return feature === 'form' && !Object.values(capability).some(declared);
}

/** Levels of log messages, least first (2025-11-25, "Logging"; RFC 5424). */
const LEVELS: readonly unknown[] = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'];

/** True for the name of a level. */
export function isLogLevel(level: unknown): level is string {
  return LEVELS.includes(level);
}

/** The level that every message reaches. */
export const LEAST_LEVEL = 'debug';

/** True when a level lets more through than another one, of which undefined stands for none that was set. */
export function lowerLevel(level: string, than: string | undefined): boolean {
  return than === undefined || LEVELS.indexOf(level) < LEVELS.indexOf(than);
}

/** True when a log message reaches the least level that was asked for, by its params; one of an unknown level always does. */
export function reachesLevel(params: unknown, least: string): boolean {
  const at = LEVELS.indexOf(isJsonObject(params) ? params.level : undefined);
  return at === -1 || at >= LEVELS.indexOf(least);
}

/** The least level of log messages that a modern request asks for; undefined when it wants none (2026-07-28, "Logging"). */
export function requestedLevel({ params }: RequestMessage): string | undefined {
  const meta = params._meta;
  const level = isJsonObject(meta) ? meta[META_LOG_LEVEL] : undefined;
  return isLogLevel(level) ? level : undefined;
}
