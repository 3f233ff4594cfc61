/**
 * What an upstream of one era may ask of a client of the other (mcp 5): questions cross, whatever hangs on methods or
 * notices that the other era does not have stays behind.
 */

import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/json/lossless';
import { type ClientCapabilities, capabilityKey } from './capabilities.ts';
import { lastSegment } from './upstream-capabilities.ts';

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
export function isAskable(capabilities: ClientCapabilities): boolean {
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
