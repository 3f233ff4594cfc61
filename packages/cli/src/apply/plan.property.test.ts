import type { JsonObject } from '@sluice/protocol/json/parse';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { propertyRuns } from '../../../../test/fixtures/seed.ts';
import { toYaml } from '../files/yaml-text.ts';
import type { CurrentState } from './current-state.ts';
import { toStateFile } from './export-state.ts';
import { plan } from './plan.ts';
import { ServiceModel } from './service-model.fixture.ts';
import { readStateFiles } from './state-file.ts';

const SCHEMA = { type: 'object' };
const UPSTREAMS = {
  'http://one/mcp': {
    x: { description: 'X', input_schema: SCHEMA },
    y: { description: '', input_schema: SCHEMA, title: 'Y' },
    z: { description: 'Z', input_schema: SCHEMA, _meta: { a: 1 } },
  },
  'http://two/mcp': { x: { description: 'other', input_schema: SCHEMA }, w: { description: 'W', input_schema: {} } },
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
  input_schema: fc.constant(SCHEMA),
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

const evaluator = fc.record({
  name: fc.constantFrom('e', 'f', 'g', 'h'),
  trigger: fc.record({ method: fc.constant('tools/call'), namespace }, { requiredKeys: ['method'] }),
  llm: fc.record({
    operation: fc.constant('classify'),
    prompt: fc.constantFrom('a', 'b'),
    connection: fc.constant('local'),
    result_schema: fc.constantFrom(null, SCHEMA),
  }),
  processor: fc.constant({ path: 'gate.wasm' }),
  on_error: fc.constantFrom('continue', 'block'),
});

type Tool = { name?: string; namespace?: string; forward?: string; upstreamName?: string };

/** A consistent state: every name is unique, and overrides refer to tools that their forward has. */
const state = fc
  .record({
    namespaces: fc.uniqueArray(fc.record({ name: namespace, labels }), { selector: ({ name }) => name }),
    forwards: fc.uniqueArray(forward, { selector: ({ name }) => name }),
    services: fc.uniqueArray(service, {
      selector: ({ name, serviceType, serviceSubType }) => `${name} ${serviceType} ${serviceSubType}`,
    }),
    evaluators: fc.uniqueArray(evaluator, { selector: ({ name }) => name }),
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

function desired(value: object) {
  return readStateFiles([{ name: 'state.json', text: JSON.stringify(value) }]);
}

function apply(model: ServiceModel, value: object, prune: boolean): void {
  model.run(plan(desired(value), model.actual(), { prune }));
  expect(plan(desired(value), model.actual(), { prune })).toEqual([]);
}

/** Everything except the order, which depends on the history; that of evaluators does not. */
function contents({ evaluators, ...others }: CurrentState): object {
  const sorted = Object.entries(others).map(([section, list]: [string, readonly object[]]) => [
    section,
    list.map((each) => JSON.stringify(each, keysInOrder)).sort(),
  ]);
  return { ...Object.fromEntries(sorted), evaluators: evaluators.list };
}

function keysInOrder(_key: string, value: unknown): unknown {
  const isMap = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isMap ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))) : value;
}

test('from any state the plan leads to any other, as from an empty service', () => {
  fc.assert(
    fc.property(state, state, (before, after) => {
      const model = new ServiceModel(UPSTREAMS);
      apply(model, before, true);
      apply(model, after, true);
      const fresh = new ServiceModel(UPSTREAMS);
      apply(fresh, after, true);
      expect(contents(model.actual())).toEqual(contents(fresh.actual()));
    }),
    { numRuns: propertyRuns(500) },
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
  let suspended = 0;
  fc.assert(
    fc.property(assigned, assigned, (before, after) => {
      const model = new ServiceModel(UPSTREAMS);
      apply(model, before, true);
      suspended += plan(desired(after), model.actual(), { prune: true }).filter(
        ({ action }) => action === 'rename',
      ).length;
      apply(model, after, true);
    }),
    { numRuns: propertyRuns(500), examples: [[cycle[0], cycle[1]]] },
  );
  expect(suspended).toBeGreaterThan(0);
});

test('without pruning, anything that is not in the file remains', () => {
  fc.assert(
    fc.property(state, (before) => {
      const model = new ServiceModel(UPSTREAMS);
      apply(model, before, true);
      const was = contents(model.actual());
      apply(model, { namespaces: [], forwards: [], services: [], tools: [], evaluators: [] }, false);
      expect(contents(model.actual())).toEqual(was);
    }),
    { numRuns: 100 },
  );
});

test('an export restores the state in an empty service, and changes nothing in this one', () => {
  fc.assert(
    fc.property(state, (before) => {
      const model = new ServiceModel(UPSTREAMS);
      apply(model, before, true);
      const exported = toYaml(toStateFile(model.actual()));
      const read = readStateFiles([{ name: 'state.yaml', text: exported }]);
      expect(plan(read, model.actual(), { prune: true })).toEqual([]);
      const fresh = new ServiceModel(UPSTREAMS);
      fresh.run(plan(read, fresh.actual(), { prune: true }));
      expect(contents(fresh.actual())).toEqual(contents(model.actual()));
      expect(toYaml(toStateFile(fresh.actual())).split('\n').sort()).toEqual(exported.split('\n').sort());
    }),
    { numRuns: propertyRuns(200) },
  );
});
