import type { JsonObject } from '@sluice/protocol/json/parse';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { propertyRuns } from '../../../../test/fixtures/seed.ts';
import { configurationOf } from './change-forward.ts';
import { DesiredService } from './fixtures/desired-state.ts';
import { entryJson } from './serialize.ts';

const SCHEMA = '"inputSchema":{"type":"object"}';
const UPSTREAMS = {
  'http://one/mcp': {
    x: `"description":"X",${SCHEMA}`,
    y: `${SCHEMA},"title":"Y"`,
    z: `"description":"Z",${SCHEMA},"_meta":{"a":1.0}`,
  },
  'http://two/mcp': { x: `"description":"other",${SCHEMA}`, w: `"description":"W",${SCHEMA}` },
};

const namespace = fc.constantFrom('default', 'a', 'b');
const labels = fc.constantFrom<JsonObject>({}, { team: 'a' });
/** Names given by operators: any tool may get any of them, so that they are swapped and form cycles. */
const given = fc.constantFrom('n1', 'n2', 'n3');
const forward = fc.record({
  name: fc.constantFrom('f', 'g'),
  address: fc.constantFrom(...Object.keys(UPSTREAMS)),
  namespace,
  labels,
});
const manual = fc.record({
  name: given,
  namespace,
  labels,
  description: fc.constantFrom('', 'by hand'),
  uri: fc.constant('http://tool/mcp'),
  toolType: fc.constant('custom'),
  input_schema: fc.constant({ type: 'object' }),
});
const override = fc.record(
  {
    forward: fc.constantFrom('f', 'g'),
    upstreamName: fc.constantFrom('x', 'y', 'z', 'w'),
    name: given,
    namespace,
    labels,
    description: fc.constantFrom(null, 'X', 'ours'),
    title: fc.constantFrom(null, 'Y', 'Ours'),
    _meta: fc.constantFrom(null, { a: 1 }),
    id: fc.constant('7'),
  },
  { requiredKeys: ['forward', 'upstreamName'] },
);
const service = fc.record(
  {
    name: fc.constantFrom('s', 't'),
    address: fc.constantFrom('h:1', 'h:2'),
    serviceType: fc.constantFrom('tool-invoker', 'code-execution-engine'),
    serviceSubType: fc.constantFrom('py', 'js'),
    labels,
  },
  { requiredKeys: ['name', 'address', 'serviceType'] },
);

type Tool = { name?: string; namespace?: string; forward?: string; upstreamName?: string };

/** A consistent state: every name is unique, and overrides refer to tools that their forward has. */
const state = fc
  .record({
    namespaces: fc.uniqueArray(fc.record({ name: namespace, labels }), { selector: ({ name }) => name }),
    forwards: fc.uniqueArray(forward, { selector: ({ name }) => name }),
    services: fc.uniqueArray(service, {
      selector: ({ name, serviceType, serviceSubType }) => `${name} ${serviceType} ${serviceSubType}`,
    }),
    prefixes: fc.constantFrom(['f.', 'g.'], ['g.', 'f.'], ['f.', 'h.']),
    tools: fc.uniqueArray(fc.oneof(manual, override, override), {
      maxLength: 8,
      selector: (tool: Tool) =>
        tool.forward ? `${tool.forward} ${tool.upstreamName}` : `${tool.namespace} ${tool.name}`,
    }),
  })
  .map(({ forwards, tools, prefixes, ...others }) => {
    const taken = new Set<string>();
    return {
      ...others,
      // Separate prefixes, so that no tool is discovered under a used name. Forwards may exchange theirs.
      forwards: forwards.map((each): JsonObject => ({ ...each, prefix: prefixes[each.name === 'f' ? 0 : 1] ?? '' })),
      tools: tools.filter((tool: Tool) => {
        const home = forwards.find(({ name }) => name === tool.forward);
        const known: object = UPSTREAMS[home?.address === 'http://two/mcp' ? 'http://two/mcp' : 'http://one/mcp'];
        if (tool.forward && (!home || !Object.hasOwn(known, tool.upstreamName ?? ''))) return false;
        const key = `${tool.namespace ?? home?.namespace} ${tool.name ?? `${prefixes[tool.forward === 'f' ? 0 : 1]}${tool.upstreamName}`}`;
        return !taken.has(key) && taken.add(key);
      }),
    };
  });

function apply(of: DesiredService, value: object, prune: boolean): void {
  const text = JSON.stringify(value);
  const planned = of.plan(text, prune);
  expect(of.apply(text, prune)).toEqual(planned);
  expect(of.plan(text, prune)).toEqual([]);
}

/** Everything except the order, which depends on the history, and members of which the notation does. */
function contents({ current }: DesiredService): object {
  const members = (text: string) => JSON.stringify(JSON.parse(text), keysInOrder);
  return {
    namespaces: [...current.namespaces.values()].map(({ name, labels }) => JSON.stringify([name, labels])).sort(),
    forwards: [...current.forwards.values()].map((each) => each.name + configurationOf(each)).sort(),
    services: current.services.all.map(({ registrationId: _, ...entry }) => JSON.stringify(entry, keysInOrder)).sort(),
    tools: current
      .entries('tool', { shadowed: true })
      .map((entry) => members(entryJson(entry)))
      .sort(),
  };
}

function keysInOrder(_key: string, value: unknown): unknown {
  const isMap = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isMap ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))) : value;
}

test('from any state the plan leads to any other, as from an empty service', () => {
  fc.assert(
    fc.property(state, state, (before, after) => {
      const of = new DesiredService(UPSTREAMS);
      apply(of, before, true);
      apply(of, after, true);
      const fresh = new DesiredService(UPSTREAMS);
      apply(fresh, after, true);
      expect(contents(of)).toEqual(contents(fresh));
    }),
    { numRuns: propertyRuns(300) },
  );
});

const NAMES = ['n1', 'n2', 'n3', 'n4', 'n5'];
const DISCOVERED = ['x', 'y', 'z'].map((upstreamName) => ({ forward: 'f', upstreamName }));
/** One forward, its tools and two by hand; each has one of the names, or none. */
function assignNames(names: readonly string[], given: readonly boolean[]) {
  const name = (index: number) => (given[index] ? { name: names[index] } : {});
  const made = { description: '', uri: 'u', toolType: 't', input_schema: {} };
  return {
    namespaces: [],
    forwards: [{ name: 'f', address: 'http://one/mcp' }],
    tools: [
      ...DISCOVERED.map((tool, index) => ({ ...tool, ...name(index) })),
      ...[3, 4].flatMap((index) => (given[index] ? [{ ...made, name: names[index] }] : [])),
    ],
  };
}
const assigned = fc
  .tuple(fc.shuffledSubarray(NAMES, { minLength: 5 }), fc.array(fc.boolean(), { minLength: 5, maxLength: 5 }))
  .map(([names, given]) => assignNames(names, given));
/** Each discovered tool gets the previous name of the next one. */
const cycle = [NAMES, ['n2', 'n3', 'n1', 'n4', 'n5']].map((names) => assignNames(names, Array(5).fill(true)));

test('names are exchanged between tools, also in a cycle', () => {
  fc.assert(
    fc.property(assigned, assigned, (before, after) => {
      const of = new DesiredService(UPSTREAMS);
      apply(of, before, true);
      apply(of, after, true);
    }),
    { numRuns: propertyRuns(300), examples: [[cycle[0], cycle[1]]] },
  );
});

test('without pruning, anything that is not in the file remains', () => {
  fc.assert(
    fc.property(state, (before) => {
      const of = new DesiredService(UPSTREAMS);
      apply(of, before, true);
      const { current } = of;
      apply(of, { namespaces: [], forwards: [], services: [], tools: [] }, false);
      expect(contents(of)).toEqual(contents(Object.assign(new DesiredService(UPSTREAMS), { current })));
    }),
    { numRuns: 100 },
  );
});
