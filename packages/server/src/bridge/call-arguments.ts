import type { JsonValue } from '@sluice/protocol/json/parse';
import { members } from '@sluice/protocol/json/scan';
import { paramText, type RequestMessage } from '@sluice/protocol/mcp/message';
import { AUTH_PREFIX } from '../telemetry/tool-calls/request-summary.ts';
import { textOfJson } from './as-text.ts';
import { ServiceError } from './service-error.ts';

/** Arguments of these names become headers of the request and are no arguments any more (specification, rules 1 and 2). */
export const META_PREFIX = 'service_meta_';

/**
 * Most that a call may have of arguments, and code of arguments and variables. A request has room for hundreds of
 * thousands, and to make a message of those would hold everybody up for a second.
 */
export const MOST_ARGUMENTS = 4096;

/**
 * Arguments by their names, each value as the JSON text that its caller wrote: most of them go to the service as they are.
 * Has no members but its own, whatever they are called. The names are texts of their own, as those of all objects are:
 * events keep some, and must not keep the request.
 */
export type GivenArguments = Readonly<Record<string, string>>;

/**
 * The arguments of a call; none where there are none. Throws ServiceError INVALID_ARGUMENTS when they are no object, or too
 * many (decisions 6).
 */
export function argumentsOf({ text }: Pick<RequestMessage, 'text'>): GivenArguments {
  return membersOf(paramText(text, 'arguments') ?? 'null', 'arguments');
}

/**
 * The members of an object that is JSON text, none of a null; `name` is what it is called. Throws ServiceError
 * INVALID_ARGUMENTS for other values, and when they are too many.
 */
export function membersOf(json: string, name: string): GivenArguments {
  if (!json.startsWith('{') && json !== 'null') {
    throw new ServiceError('INVALID_ARGUMENTS', `${name} must be an object`);
  }
  const given: Record<string, string> = Object.create(null);
  let count = 0;
  for (const { key, start, end } of members(json)) {
    if (++count > MOST_ARGUMENTS) throw tooMany(name);
    given[key] = json.slice(start, end);
  }
  return given;
}

/** What is thrown where there are more than {@link MOST_ARGUMENTS}. */
export function tooMany(name: string): ServiceError {
  return new ServiceError('INVALID_ARGUMENTS', `${name} must have at most ${MOST_ARGUMENTS} members`);
}

/** The arguments that have a value, as texts, in their order. */
export function textsOf(given: GivenArguments): [string, string][] {
  const texts: [string, string][] = [];
  for (const name in given) {
    const text = textOfJson(given[name]);
    if (text !== undefined) texts.push([name.toWellFormed(), text]);
  }
  return texts;
}

/** Throws ServiceError INVALID_ARGUMENTS unless all arguments were given that a schema requires; a null is none. */
export function requireAll(required: JsonValue | undefined, given: GivenArguments): void {
  if (!Array.isArray(required)) return;
  const missing = required.filter((name) => typeof name === 'string' && (given[name] ?? 'null') === 'null');
  if (missing.length > 0) {
    throw new ServiceError('INVALID_ARGUMENTS', `Missing required parameter(s): ${missing.join(', ')}`);
  }
}

/** True for arguments that become headers; what those that authenticate carry is secret. */
export function becomesHeader(name: string): boolean {
  return name.startsWith(META_PREFIX) || name.startsWith(AUTH_PREFIX);
}
