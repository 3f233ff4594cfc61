import { expect, test } from 'vitest';
import { plan } from './plan.ts';
import { readState } from './state-file.ts';
import { stateOf } from './state-of.ts';

const TOOL = {
  forward: 'up',
  upstreamName: 'x',
  namespace: 'default',
  name: 'x',
  shadowed: false,
  labels: { 'service.own': '1', 'service.forward_headers': 'x-tenant' },
  members: { uri: 'http://one/mcp', toolType: 'mcp-forward', description: 'X', input_schema: {} },
  upstream: { description: 'X', input_schema: {} },
};
const SERVICE = {
  namespaces: [{ name: 'default', labels: {} }],
  forwards: [{ name: 'up', address: 'http://one/mcp', namespace: 'default', labels: {}, prefix: '' }],
  services: [],
  handMade: [],
  // A copy in another namespace comes and goes with the first.
  discovered: [TOOL, { ...TOOL, namespace: 'other', labels: {} }],
  others: [],
};

test('what the service sets itself, and what it copied, is no state of an operator', () => {
  const state = stateOf(SERVICE);
  expect(state.tools).toEqual([
    { forward: 'up', upstreamName: 'x', labels: { 'service.forward_headers': 'x-tenant' } },
  ]);
  const again = readState([{ name: 'state', text: JSON.stringify(state) }]);
  expect(plan(again, SERVICE, { prune: false })).toEqual([]);
});
