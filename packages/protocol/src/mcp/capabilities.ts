/**
 * Client capabilities. Upstreams may list other entries for other capabilities, so catalogs and shared sessions exist per
 * capability set. Between eras, server requests are translated; capabilities for methods that the other era lacks are removed.
 */

import { isJsonObject, type JsonObject, type JsonValue } from '../json/parse.ts';
import type { Era } from './constants.ts';

/** The `capabilities` of `initialize`, or the modern `_meta` member, with unknown members. */
export type ClientCapabilities = Readonly<JsonObject>;

/** The empty set, used by every discovery. */
export const NO_CAPABILITIES: ClientCapabilities = {};

/** The set with all server requests, used by every discovery. */
export const FULL_CAPABILITIES: ClientCapabilities = { elicitation: { form: {}, url: {} }, roots: {}, sampling: {} };

/** Depth to which sets are compared: clients choose their capabilities. */
const MAX_DEPTH = 16;

/**
 * A canonical text of a set: members sorted, without `listChanged` (its notifications are handled by the gateway) and
 * members that are null or false; `elicitation` without a mode means form mode.
 */
export function capabilityKey(capabilities: ClientCapabilities): string {
  return JSON.stringify(normalize(capabilities, 0));
}

/**
 * Chooses the variant for a client: an equal set, else the largest subset, the first one of equal size. Undefined when
 * none is a subset.
 */
export function chooseVariant<Variant extends { readonly capabilities: ClientCapabilities }>(
  variants: Iterable<Variant>,
  capabilities: ClientCapabilities,
): Variant | undefined {
  const wanted = normalize(capabilities, 0);
  let best: Variant | undefined;
  let bestSize = -1;
  for (const variant of variants) {
    const offered = normalize(variant.capabilities, 0);
    const size = sizeOf(offered);
    if (size > bestSize && covers(wanted, offered)) {
      best = variant;
      bestSize = size;
    }
  }
  return best;
}

function normalize(value: unknown, depth: number): unknown {
  if (Array.isArray(value) && depth < MAX_DEPTH) return value.map((element) => normalize(element, depth + 1));
  if (typeof value !== 'object' || value === null || JSON.isRawJSON(value)) return value;
  if (depth === MAX_DEPTH) return {};
  const members = Object.entries(value)
    .filter(([key, member]) => key !== 'listChanged' && member !== null && member !== false)
    .map(([key, member]): [string, unknown] => [key, normalize(member, depth + 1)])
    .sort(([a], [b]) => (a < b ? -1 : 1));
  if (depth === 0) {
    const elicitation = members.find(([key]) => key === 'elicitation');
    if (elicitation !== undefined && sizeOf(elicitation[1]) === 1) elicitation[1] = { form: {} };
  }
  return Object.fromEntries(members);
}

/** True when `whole` contains `part`. Both are canonical. */
function covers(whole: unknown, part: unknown): boolean {
  if (!isJsonObject(part)) return JSON.stringify(whole) === JSON.stringify(part);
  if (!isJsonObject(whole)) return false;
  return Object.entries(part).every(([key, member]) => Object.hasOwn(whole, key) && covers(whole[key], member));
}

/** Number of members of a canonical set at all depths. */
function sizeOf(value: unknown): number {
  if (!isJsonObject(value)) return 1;
  return Object.values(value).reduce((sum: number, member) => sum + sizeOf(member), 1);
}

/** Key of a catalog within its forward: era and canonical capability set. */
export function catalogKey(era: Era, capabilities: ClientCapabilities): string {
  return `${era}:${capabilityKey(capabilities)}`;
}

/** The method segment of a capability: `tasks` for both `tasks` and `example.com/tasks`. */
export function methodSegment(key: string): string {
  return key.slice(key.lastIndexOf('/') + 1);
}

/** Capabilities for server requests. */
const SERVER_REQUESTS = ['elicitation', 'sampling', 'roots'] as const;

/**
 * Translates client capabilities for an upstream of the other era: without tasks (a capability in 2025-11-25, an
 * extension in 2026-07-28, with different methods) and without `roots.listChanged`, whose notification exists in one
 * era only. `serverRequests`: false removes the capabilities for server requests.
 */
export function translatedCapabilities(capabilities: ClientCapabilities, serverRequests: boolean): JsonObject {
  const translated: JsonObject = { ...capabilities };
  delete translated.tasks;
  if (!serverRequests) for (const name of SERVER_REQUESTS) delete translated[name];
  if (isJsonObject(translated.roots)) translated.roots = without(translated.roots, (key) => key === 'listChanged');
  if (isJsonObject(translated.extensions)) {
    translated.extensions = without(translated.extensions, (key) => methodSegment(key) === 'tasks');
  }
  return translated;
}

/** Limit of a canonical set towards upstreams, whose sessions are keyed by it. */
const MAX_KEY_LENGTH = 4096;

/**
 * Capabilities of a modern client towards a legacy upstream that may send server requests; none when they are too long.
 */
export function legacyCapabilities(capabilities: ClientCapabilities): JsonObject {
  const translated = translatedCapabilities(capabilities, true);
  return capabilityKey(translated).length <= MAX_KEY_LENGTH ? translated : {};
}

/** True when the client accepts any server request. */
export function supportsServerRequests(capabilities: ClientCapabilities): boolean {
  return SERVER_REQUESTS.some((name) => isDeclared(capabilities[name]));
}

/**
 * The capabilities that a server request requires: elicitation of its mode (form by default), sampling (with tools if
 * it has some) or roots. Undefined for requests that clients never receive.
 */
export function requiredCapabilities(
  method: string,
  params: JsonValue | undefined,
): Record<string, JsonObject> | undefined {
  const { mode, tools, toolChoice }: JsonObject = isJsonObject(params) ? params : {};
  switch (method) {
    case 'elicitation/create':
      if ((mode ?? 'form') === 'form') return { elicitation: { form: {} } };
      return mode === 'url' ? { elicitation: { url: {} } } : undefined;
    case 'sampling/createMessage':
      return { sampling: isDeclared(tools) || isDeclared(toolChoice) ? { tools: {} } : {} };
    case 'roots/list':
      return { roots: {} };
    default:
      return undefined;
  }
}

/** True when a client with these capabilities accepts a server request. */
export function acceptsServerRequest(
  capabilities: ClientCapabilities,
  method: string,
  params: JsonValue | undefined,
): boolean {
  const required = requiredCapabilities(method, params);
  return required !== undefined && declares(capabilities, required);
}

/** True when the capabilities include the required ones, see {@link requiredCapabilities}. */
export function declares(capabilities: ClientCapabilities, required: Readonly<Record<string, JsonObject>>): boolean {
  return Object.entries(required).every(([name, features]) => {
    const own = capabilities[name];
    return isDeclared(own) && Object.keys(features).every((feature) => hasFeature(own, feature));
  });
}

function without(value: JsonObject, drop: (key: string) => boolean): JsonObject {
  return Object.fromEntries(Object.entries(value).filter(([key]) => !drop(key)));
}

/** Null and false declare nothing. */
function isDeclared(value: JsonValue | undefined): boolean {
  return value !== undefined && value !== null && value !== false;
}

/** Without modes `elicitation` means form (2025-11-25, "Elicitation"). */
function hasFeature(capability: JsonValue | undefined, feature: string): boolean {
  if (!isJsonObject(capability)) return feature === 'form';
  if (Object.hasOwn(capability, feature) && isDeclared(capability[feature])) return true;
  return feature === 'form' && !Object.values(capability).some(isDeclared);
}

/** Log levels, lowest first (2025-11-25, "Logging"; RFC 5424). */
const LEVELS: readonly unknown[] = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'];

/** True for the name of a log level. */
export function isLogLevel(level: unknown): level is string {
  return LEVELS.includes(level);
}

/** The lowest level, which includes all messages. */
export const MINIMUM_LEVEL = 'debug';

/** True when `level` is lower than `than`, or `than` is not set. */
export function isLowerLevel(level: string, than: string | undefined): boolean {
  return than === undefined || LEVELS.indexOf(level) < LEVELS.indexOf(than);
}

/** True when a log message has at least this level; one with an unknown level always does. */
export function reachesLevel(params: unknown, minimumLevel: string): boolean {
  const at = LEVELS.indexOf(isJsonObject(params) ? params.level : undefined);
  return at === -1 || at >= LEVELS.indexOf(minimumLevel);
}
