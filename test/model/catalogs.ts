import type { JsonObject, JsonValue } from '@sluice/protocol/json/parse';
import fc from 'fast-check';
import {
  escapeVariants,
  locations,
  objects,
  resourceNames,
  schemas,
  someOf,
  texts,
  upstreamNames,
} from './alphabets.ts';
import type { Catalog } from './state.ts';

/** Members of any object; the last ones have names of the registry's own. */
const ANY = {
  description: texts,
  title: texts,
  _meta: objects,
  vendor: escapeVariants,
  labels: fc.constant({ theirs: JSON.rawJSON('1.0') }),
  forward: fc.constant('theirs'),
  id: fc.constant(5),
};

const tool = object(
  { inputSchema: schemas, name: upstreamNames },
  { ...ANY, annotations: fc.constant({ readOnlyHint: true }), uri: fc.constant('theirs') },
);
const resource = object(
  { uri: locations, name: resourceNames },
  { ...ANY, mimeType: texts, location: fc.constant('theirs') },
);
const template = object(
  { uriTemplate: locations, name: resourceNames },
  { ...ANY, mimeType: texts, type: fc.constant('theirs') },
);
const prompt = object(
  { name: upstreamNames },
  { ...ANY, arguments: fc.constantFrom<JsonValue>([], [{ name: 'who' }], [{ name: 'who', required: true }]) },
);

/** Catalog of an upstream: a few entries of each kind, with duplicates. */
export const catalogs: fc.Arbitrary<Catalog> = fc.record({
  tools: fc.array(tool, { maxLength: 4 }),
  resources: fc.array(resource, { maxLength: 3 }),
  templates: fc.array(template, { maxLength: 2 }),
  prompts: fc.array(prompt, { maxLength: 3 }),
});

function object(
  required: Readonly<Record<string, fc.Arbitrary<JsonValue>>>,
  optional: Readonly<Record<string, fc.Arbitrary<JsonValue>>>,
): fc.Arbitrary<JsonObject> {
  return fc.tuple(fc.record(required), someOf(optional)).map(([always, sometimes]) => ({ ...always, ...sometimes }));
}
