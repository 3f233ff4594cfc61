import { isDeepStrictEqual } from 'node:util';
import { isJsonObject, type JsonValue } from '@sluice/protocol/json/parse';
import { comparable } from './bodies.ts';
import type { ApiResponse } from './request.ts';

const HEALTH = ['pending', 'healthy', 'unhealthy', 'down'];

/**
 * The response in the form of the model: a `statusMessage` with all expected texts becomes their list, `serverInfo` its
 * name, and a service's `health` is omitted, since it depends on the time of probes.
 */
export function normalized(actual: JsonValue, expected: JsonValue | undefined): JsonValue {
  if (Array.isArray(actual)) {
    const others = Array.isArray(expected) ? expected : [];
    return actual.map((item, at) => normalized(item, others[at]));
  }
  if (!isJsonObject(actual)) return actual;
  const model = isJsonObject(expected) ? expected : {};
  const members = Object.entries(actual).map(([member, value]): [string, JsonValue] => {
    if (member === 'serverInfo' && isJsonObject(value)) return [member, value.serverName ?? null];
    const texts = model[member];
    if (member === 'statusMessage' && typeof value === 'string' && Array.isArray(texts)) {
      return [member, texts.every((text) => value.includes(String(text))) ? texts : value];
    }
    // Listed in no order.
    if (member === 'disabled' && Array.isArray(value)) return [member, value.toSorted(byText)];
    return [member, normalized(value, model[member])];
  });
  const ofService = 'serviceType' in actual && 'host' in actual;
  return Object.fromEntries(
    members.filter(([member, value]) => !(ofService && member === 'health' && HEALTH.includes(String(value)))),
  );
}

/** Order of JSON values by their text. */
export function byText(a: JsonValue, b: JsonValue): number {
  const [one, other] = [JSON.stringify(a), JSON.stringify(b)];
  return one < other ? -1 : Number(one > other);
}

/** Returns the differences as lines; none when they agree. */
export function differences(actual: JsonValue | undefined, expected: JsonValue | undefined, path = ''): string[] {
  if (isDeepStrictEqual(actual, expected)) return [];
  const bothLists = Array.isArray(actual) && Array.isArray(expected) && actual.length === expected.length;
  if (bothLists) return actual.flatMap((item, at) => differences(item, expected[at], `${path}[${at}]`));
  if (isJsonObject(actual) && isJsonObject(expected)) {
    const members = new Set([...Object.keys(actual), ...Object.keys(expected)]);
    return [...members].flatMap((member) => differences(actual[member], expected[member], `${path}.${member}`));
  }
  return [`${path}: the service has ${JSON.stringify(actual)}, the model ${JSON.stringify(expected)}`];
}

/** Differences between a response and the documents, without unspecified parts. */
export function responseDifferences(actual: ApiResponse, expected: ApiResponse): string[] {
  const { message, details } = expected;
  const received = message === undefined || (actual.message ?? '').startsWith(message);
  return [
    ...differences(actual.status, expected.status, 'status'),
    ...differences(actual.code, expected.code, 'code'),
    ...differences(actual.location, expected.location, 'location'),
    ...differences(
      actual.data === undefined ? undefined : normalized(actual.data, expected.data),
      expected.data,
      'data',
    ),
    ...(received ? [] : [`message: ${actual.message} from the service, ${message} from the model`]),
    ...(details === undefined ? [] : differences(comparable(actual.details), details, 'details')),
  ];
}
