import fc from 'fast-check';
import * as alphabet from './alphabets.ts';
import { catalogs } from './catalogs.ts';
import type { ApiRequest, Collection } from './request.ts';
import { addressPlaceholder, type Edit, itemPlaceholder, type Step } from './step.ts';
import { bodies, changes } from './submissions.ts';
import { UPSTREAMS } from './upstreams.ts';

type Query = Readonly<Record<string, string>>;
type EntryCollection = Edit['edit'];

/** Mostly existing names, since all others are only not found. */
const mostlyExisting = (literal: fc.Arbitrary<string>): fc.Arbitrary<string> =>
  fc.oneof({ weight: 3, arbitrary: fc.nat(9).map(itemPlaceholder) }, { weight: 2, arbitrary: literal });

const signals = fc.constantFrom('SIGTERM' as const, 'SIGKILL' as const);
/** Unknown query parameter, which is ignored. */
const unknownParameters: Query = { label: 'x', unknown: '0' };

/** Includes upstream names of tools; an empty name would be another path. */
const addressable = alphabet.upstreamNames.filter((name) => name !== '');

const NAMES: Readonly<Record<Collection, fc.Arbitrary<string>>> = {
  namespaces: mostlyExisting(alphabet.namespaces),
  forwards: mostlyExisting(alphabet.forwardNames),
  tools: mostlyExisting(fc.oneof(alphabet.names, addressable)),
  resources: mostlyExisting(fc.oneof(alphabet.resourceNames, alphabet.locations)),
  prompts: mostlyExisting(fc.oneof(alphabet.names, addressable)),
  services: mostlyExisting(alphabet.serviceNames),
};

/** Query parameters that select among entries of one name. */
function selections(collection: Collection): fc.Arbitrary<Query> {
  const namespace = alphabet.namespaces.map((name): Query => ({ namespace: name }));
  const invalidNamespaces = alphabet.invalidNamespaces.map((name): Query => ({ namespace: name }));
  const uri = alphabet.locations.map((location): Query => ({ uri: location }));
  const both = fc.tuple(namespace, uri).map(([a, b]): Query => ({ ...a, ...b }));
  const none = fc.constantFrom<Query>({}, {}, {}, unknownParameters);
  switch (collection) {
    case 'resources':
      return fc.oneof(none, namespace, uri, both);
    case 'services':
      return fc.oneof(
        none,
        fc.oneof(alphabet.serviceTypes, fc.constant('none')).map((serviceType): Query => ({ serviceType })),
      );
    case 'namespaces':
      return fc.constantFrom<Query>({}, {}, { cascade: 'true' }, { cascade: 'false' });
    case 'forwards':
      return none;
    default:
      return fc.oneof(
        { weight: 5, arbitrary: none },
        { weight: 5, arbitrary: namespace },
        { weight: 1, arbitrary: invalidNamespaces },
      );
  }
}

function lists(collection: Collection): fc.Arbitrary<ApiRequest> {
  const narrowed = alphabet.namespaces.map((namespace): Query => ({ namespace }));
  const shadowed = narrowed.map((query): Query => ({ ...query, include: 'shadowed' }));
  const query = fc.oneof(fc.constantFrom<Query>({}, { include: 'shadowed' }, unknownParameters), narrowed, shadowed);
  return query.map((chosen) => ({ method: 'GET', collection, query: chosen }));
}

function reads(collection: Collection): fc.Arbitrary<ApiRequest> {
  return named('GET', collection);
}

function removals(collection: Collection): fc.Arbitrary<ApiRequest> {
  return named('DELETE', collection);
}

function named(method: 'GET' | 'DELETE', collection: Collection): fc.Arbitrary<ApiRequest> {
  return fc.record({
    method: fc.constant(method),
    collection: fc.constant(collection),
    name: NAMES[collection],
    query: selections(collection),
  });
}

function posts(collection: Collection): fc.Arbitrary<ApiRequest> {
  return bodies(collection).map((body) => ({ method: 'POST', collection, body }));
}

function puts(collection: Collection): fc.Arbitrary<ApiRequest> {
  const parts = fc.tuple(NAMES[collection], selections(collection), bodies(collection));
  return parts.map(([name, query, body]) => ({ method: 'PUT', collection, name, query, body }));
}

function edits(edit: EntryCollection): fc.Arbitrary<Edit> {
  return fc.record({ edit: fc.constant(edit), name: NAMES[edit], query: selections(edit), change: changes(edit) });
}

const refreshes = NAMES.forwards.map(
  (name): ApiRequest => ({ method: 'POST', collection: 'forwards', name, refreshes: true }),
);

type Weighted = fc.WeightedArbitrary<ApiRequest | Edit>;

function entryCalls(collection: EntryCollection): Weighted[] {
  return [
    { weight: 4, arbitrary: posts(collection) },
    { weight: 5, arbitrary: edits(collection) },
    { weight: 2, arbitrary: puts(collection) },
    { weight: 2, arbitrary: reads(collection) },
    { weight: 1, arbitrary: lists(collection) },
    { weight: 3, arbitrary: removals(collection) },
  ];
}

const CALLS: Readonly<Record<Collection, readonly Weighted[]>> = {
  tools: entryCalls('tools'),
  resources: entryCalls('resources'),
  prompts: entryCalls('prompts'),
  namespaces: [
    { weight: 2, arbitrary: posts('namespaces') },
    { weight: 2, arbitrary: puts('namespaces') },
    { weight: 1, arbitrary: reads('namespaces') },
    { weight: 3, arbitrary: removals('namespaces') },
  ],
  services: [
    { weight: 5, arbitrary: posts('services') },
    { weight: 2, arbitrary: reads('services') },
    { weight: 2, arbitrary: removals('services') },
  ],
  forwards: [
    { weight: 9, arbitrary: posts('forwards') },
    { weight: 8, arbitrary: refreshes },
    { weight: 1, arbitrary: reads('forwards') },
    { weight: 1, arbitrary: lists('forwards') },
    { weight: 1, arbitrary: removals('forwards') },
  ],
};

const calls = fc.oneof(...Object.values(CALLS).flat(), {
  weight: 1,
  arbitrary: fc.constant<ApiRequest>({ method: 'GET', collection: 'statistics' }),
});

const upstream = fc.nat(UPSTREAMS - 1);

/** An upstream changes its catalog; half of the time a forward is refreshed afterwards. */
const catalogChange: fc.Arbitrary<Step[]> = fc
  .tuple(
    upstream,
    fc.oneof(catalogs, fc.constantFrom('reversed', 'rotated', 'shorter')),
    fc.option(refreshes, { freq: 2 }),
  )
  .map(([index, offers, refresh]) => [
    { kind: 'upstream', upstream: index, offers },
    ...(refresh ? [{ kind: 'call', call: refresh } as const] : []),
  ]);

/** An upstream omits an entry for a while, with refreshes of its forwards in both states. */
const temporaryRemoval: fc.Arbitrary<Step[]> = upstream.map((index) =>
  (['shorter', 'previous'] as const).flatMap((offers): Step[] => [
    { kind: 'upstream', upstream: index, offers },
    ...[0, 1, 2].map((number): Step => {
      return {
        kind: 'call',
        call: { method: 'POST', collection: 'forwards', name: itemPlaceholder(number), refreshes: true },
      };
    }),
  ]),
);

const failing: fc.Arbitrary<Step[]> = fc
  .tuple(upstream, fc.constantFrom('up', 'failing', 'down'), catalogs)
  .map(([index, mode, offers]) => [{ kind: 'upstream', upstream: index, mode, offers }]);

const restarting: fc.Arbitrary<Step[]> = signals.map((signal) => [{ kind: 'restart', signal }]);

const cuts = fc.record({ signal: signals, after: fc.nat(2) });
const several = (of: fc.Arbitrary<ApiRequest | Edit>) => fc.array(of, { minLength: 2, maxLength: 4 });
/** Calls of one collection, which often mean the same item, and any. */
const groups = fc.oneof(...Object.values(CALLS).map((alike) => several(fc.oneof(...alike))), {
  weight: 4,
  arbitrary: several(calls),
});
const together: fc.Arbitrary<Step[]> = fc
  .tuple(groups, fc.option(cuts, { nil: undefined, freq: 2 }))
  .map(([group, interruption]) => [{ kind: 'concurrent', calls: group, interruption }]);

const steps: fc.Arbitrary<Step[]> = fc.oneof(
  { weight: 80, arbitrary: calls.map((one): Step[] => [{ kind: 'call', call: one }]) },
  { weight: 8, arbitrary: catalogChange },
  { weight: 2, arbitrary: temporaryRemoval },
  { weight: 3, arbitrary: failing },
  { weight: 2, arbitrary: restarting },
  { weight: 8, arbitrary: together },
);

/** A run: each upstream starts with a catalog, and some of them are registered. */
export function runs(length: number): fc.Arbitrary<Step[]> {
  const initialCatalogs = fc.tuple(...Array.from({ length: UPSTREAMS }, () => catalogs));
  const registered = fc.subarray(
    ['f', 'g', 'h/1 %'].map((name, index) => ({ name, address: addressPlaceholder(index) })),
  );
  const then = fc.array(steps, { minLength: Math.trunc(length / 2), maxLength: length, size: 'max' });
  return fc.tuple(initialCatalogs, registered, then).map(([begin, forwards, rest]) => [
    ...begin.map((offers, index): Step => ({ kind: 'upstream', upstream: index, offers })),
    ...forwards.map((body): Step => {
      return { kind: 'call', call: { method: 'POST', collection: 'forwards', body: JSON.stringify(body) } };
    }),
    ...rest.flat(),
  ]);
}
