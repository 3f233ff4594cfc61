import type { JsonObject, JsonValue } from '@sluice/protocol/json/parse';
import fc from 'fast-check';

/**
 * Few names, so that conflicts are frequent; some need percent-encoding, or have a meaning in paths. The first ones are
 * more frequent.
 */
const few = <T>(...names: readonly T[]): fc.Arbitrary<T> =>
  fc.oneof(
    { weight: 3, arbitrary: fc.constantFrom(...names.slice(0, 2)) },
    { weight: 2, arbitrary: fc.constantFrom(...names) },
  );

/** Names of tools and prompts given by operators. */
export const names = few('a', 'b', 'p.a', 'a/b', 'a b', '50%', 'ä😀', '..', '?q=1#f', ' a ');
/** Names given by upstreams: stored unchanged, with surrounding spaces, sometimes empty. */
export const upstreamNames = few<string>('a', 'b', 'c', 'a/b', 'p.a', ' b ', '..', '');
export const resourceNames = few('r', 's', 'r/1', '%', 'x:1');
export const locations = few('x:1', 'x:2', 'file:///a b?c=%20', 'x:{t}', 'ö:/..');
export const namespaces = fc.oneof(
  { weight: 1, arbitrary: fc.constant('default') },
  { weight: 1, arbitrary: few('ops', 'dev', 'public', '0-a') },
);
export const forwardNames = few('f', 'g', 'h/1 %');
export const serviceNames = few('s', 't', 's/1 ü');
export const serviceTypes = few('tool-invoker', 'code-execution-engine', 'resource-provider', 'multi-capability');

/** Invalid namespace names, or empty ones. */
export const invalidNamespaces = fc.constantFrom('No!', '-a', '', 'a'.repeat(64));

export const labels = fc.constantFrom<Record<string, string>>(
  {},
  { team: 'a' },
  { team: 'c', 'service.x': 'y' },
  { team: 'b', 'service.forward_headers': 'X-Team' },
  { 'ключ %': '' },
);

/** Values whose numbers must keep their exact text. */
export const escapeVariants = fc.constantFrom<JsonValue>(
  { n: JSON.rawJSON('1.0'), big: JSON.rawJSON('9223372036854775807') },
  [{ deep: [null, true, 'ü\u2028'] }],
  'text',
  7,
);

/** Objects among them, for members that must be objects. */
export const objects = fc.constantFrom<JsonObject>(
  { n: JSON.rawJSON('1.0'), big: JSON.rawJSON('9223372036854775807') },
  { deep: [{ deep: [null, true, 'ü\u2028'] }] },
);

export const schemas = fc.constantFrom<JsonObject>(
  { type: 'object' },
  { type: 'object', properties: { n: { maximum: JSON.rawJSON('9223372036854775807') } } },
  { properties: {}, required: [], type: 'object', 'x-vendor': JSON.rawJSON('2.50') },
);

export const texts = fc.constantFrom('', 'one', 'two "quoted" {a}');

/** Objects with these members, each of them there or not. */
export function someOf(members: Readonly<Record<string, fc.Arbitrary<JsonValue>>>): fc.Arbitrary<JsonObject> {
  const optional = Object.entries(members).map(([member, values]) =>
    fc.option(
      values.map((value): [string, JsonValue] => [member, value]),
      { freq: 2 },
    ),
  );
  return fc.tuple(...optional).map((chosen) => Object.fromEntries(chosen.filter((member) => member !== null)));
}
