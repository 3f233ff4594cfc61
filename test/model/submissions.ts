import type { JsonObject, JsonValue } from '@sluice/protocol/json/parse';
import fc from 'fast-check';
import * as alphabet from './alphabets.ts';
import type { Collection } from './request.ts';
import { addressPlaceholder } from './step.ts';
import { UPSTREAMS } from './upstreams.ts';

type Members = Readonly<Record<string, fc.Arbitrary<JsonValue>>>;

const { labels, texts, escapeVariants: encoded, schemas, names, namespaces } = alphabet;
/** Stored members of entries, including unknown ones, and read-only ones, which are ignored. */
const STORED: Members = {
  labels,
  namespace: namespaces,
  enabled: fc.boolean(),
  id: texts,
  configurationURI: texts,
  vendor: encoded,
  forward: fc.constant('f'),
  upstreamName: fc.constant('x'),
  shadowed: fc.constant(true),
};
const unreachable = 'http://127.0.0.1:9/mcp';
const addresses = fc.oneof(
  { weight: 6, arbitrary: fc.nat(UPSTREAMS - 1).map(addressPlaceholder) },
  { weight: 1, arbitrary: fc.constant(unreachable) },
);

/** Members of bodies: required ones, and others. */
const BODIES: Readonly<Record<Collection, readonly [Members, Members]>> = {
  namespaces: [{ name: namespaces }, { labels }],
  forwards: [
    { name: alphabet.forwardNames, address: addresses },
    { namespace: namespaces, labels, prefix: fc.constantFrom('p.', 'x') },
  ],
  tools: [
    {
      ...{ name: names, description: texts, uri: fc.constantFrom('http://127.0.0.1:9/mcp', 'x:y') },
      ...{ toolType: fc.constantFrom('custom', 'mcp-forward'), input_schema: schemas },
    },
    { ...STORED, title: texts, secretsURI: texts, output_schema: schemas, icons: fc.constant([{ src: 'i' }]) },
  ],
  resources: [
    { name: alphabet.resourceNames, location: alphabet.locations, type: fc.constantFrom('custom', 'mcp-forward') },
    {
      ...STORED,
      labels: fc.oneof(labels, fc.constant({ 'service.is_template': 'true' })),
      ...{ description: texts, mimeType: texts, secretsURI: texts, uriTemplate: fc.constant('ignored') },
      params: fc.constant([{ name: 'p', value: 'v' }]),
    },
  ],
  prompts: [
    { name: names },
    {
      ...{ ...STORED, description: texts, title: texts },
      arguments: fc.constantFrom<JsonValue>([], [{ name: 'who', required: true, more: JSON.rawJSON('1.0') }]),
      messages: fc.constantFrom<JsonValue>([], [{ role: 'user', content: 'Hi {who}' }]),
    },
  ],
  services: [
    {
      name: alphabet.serviceNames,
      serviceType: alphabet.serviceTypes,
      address: fc.constantFrom('host:1', 'other:65535'),
    },
    { labels, id: texts, serviceSubType: fc.constantFrom('process', 'vm'), languageName: fc.constantFrom('js', 'py') },
  ],
};

const ALIASES: Readonly<Record<string, string>> = {
  ...{ toolType: 'type', input_schema: 'inputSchema', output_schema: 'outputSchema', mimeType: 'mime_type' },
  ...{ configurationURI: 'configuration_uri', secretsURI: 'secrets_uri', location: 'uri', serviceType: 'service_type' },
};

/** Members of a valid body. */
function members(collection: Collection): fc.Arbitrary<JsonObject> {
  const [required, optional] = BODIES[collection];
  return fc.tuple(fc.record(required), alphabet.someOf(optional), fc.nat(5)).map(([always, sometimes, encoding]) => {
    const body: JsonObject = {};
    for (const [member, value] of Object.entries({ ...always, ...sometimes })) {
      const alias =
        encoding === 0 && collection !== 'namespaces' && collection !== 'forwards' ? ALIASES[member] : undefined;
      body[alias ?? member] = value;
    }
    return body;
  });
}

/** Bodies that are invalid whatever their other members. */
const invalidText = fc.constantFrom<string | undefined>(undefined, '', '{', '[]', '"a"', '{"name":1,}');
const invalidValue = fc.constantFrom<JsonValue>(null, 5, JSON.rawJSON('1.0'), true, { a: 1 });
const invalidMember = fc.constantFrom(
  'name',
  'namespace',
  'labels',
  'description',
  'id',
  'input_schema',
  'address',
  'serviceType',
);

/** A body: mostly a good one, sometimes with a member missing or mistyped, sometimes none or no JSON. */
export function bodies(collection: Collection): fc.Arbitrary<string | undefined> {
  const valid = members(collection);
  const [required] = BODIES[collection];
  const lacking = fc.tuple(valid, fc.constantFrom(...Object.keys(required))).map(([body, member]) => {
    const { [member]: _, ...rest } = body;
    return rest;
  });
  const wrongType = fc
    .tuple(valid, invalidMember, invalidValue)
    .map(([body, member, value]) => ({ ...body, [member]: value }));
  const misplaced = fc.tuple(valid, alphabet.invalidNamespaces).map(([body, namespace]) => ({ ...body, namespace }));
  const made = fc.oneof(
    { weight: 20, arbitrary: valid },
    { weight: 1, arbitrary: lacking },
    { weight: 1, arbitrary: wrongType },
    { weight: 1, arbitrary: misplaced },
  );
  return fc.oneof(
    { weight: 40, arbitrary: made.map((body): string | undefined => JSON.stringify(body)) },
    { weight: 1, arbitrary: invalidText },
  );
}

/** Changes of an entry that was read; also none. */
export function changes(
  edit: 'tools' | 'resources' | 'prompts',
): fc.Arbitrary<Readonly<Record<string, JsonValue | undefined>>> {
  const orRemoved = <T extends JsonValue>(values: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> =>
    fc.oneof({ weight: 4, arbitrary: values }, { weight: 1, arbitrary: fc.constant(undefined) });
  const common = {
    description: texts,
    namespace: orRemoved(namespaces),
    labels: orRemoved(labels),
    vendor: orRemoved(encoded),
    id: orRemoved(texts),
    enabled: orRemoved(fc.boolean()),
  };
  const own: Readonly<Record<typeof edit, Readonly<Record<string, fc.Arbitrary<JsonValue | undefined>>>>> = {
    tools: { name: orRemoved(names), title: orRemoved(texts), input_schema: schemas, uri: fc.constant('x:y') },
    resources: {
      ...{ name: orRemoved(alphabet.resourceNames), mimeType: orRemoved(texts), _meta: orRemoved(alphabet.objects) },
      location: alphabet.locations,
      labels: fc.constantFrom<JsonValue>({ 'service.is_template': 'true' }, { 'service.forward_address': 'x', a: '1' }),
    },
    prompts: {
      ...{ name: orRemoved(names), title: orRemoved(texts), messages: fc.constant([{ role: 'user', content: 'Hi' }]) },
      arguments: orRemoved(fc.constantFrom<JsonValue>([], [{ name: 'who' }], [{ name: 'other' }])),
    },
  };
  const all: Readonly<Record<string, fc.Arbitrary<JsonValue | undefined>>> = { ...common, ...own[edit] };
  const one = fc
    .constantFrom(...Object.keys(all))
    .chain((member) =>
      (all[member] ?? fc.constant(undefined)).map((value): [string, JsonValue | undefined] => [member, value]),
    );
  return fc.array(one, { maxLength: 4 }).map((members) => Object.fromEntries(members));
}
