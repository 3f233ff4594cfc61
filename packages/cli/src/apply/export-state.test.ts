import { expect, test } from 'vitest';
import { toStateFile } from './export-state.ts';
import { readStateFiles } from './state-file.ts';

const TOOL = {
  forward: 'up',
  upstreamName: 'x',
  namespace: 'default',
  name: 'x',
  shadowed: false,
  enabled: true,
  labels: { 'service.own': '1', 'service.forward_headers': 'x-tenant' },
  members: { uri: 'http://one/mcp', toolType: 'mcp-forward', description: 'X', input_schema: {} },
  upstream: { description: 'X', input_schema: {} },
};
const SERVICE = {
  namespaces: [{ name: 'default', labels: {} }],
  forwards: [
    { name: 'up', address: 'http://one/mcp', namespace: 'default', labels: {}, prefix: '', expose: undefined },
  ],
  services: [],
  manual: [],
  // A copy in another namespace follows its original.
  discovered: [TOOL, { ...TOOL, namespace: 'other', labels: {} }],
  evaluators: [],
};

test('labels and copies made by the service are not exported', () => {
  const state = toStateFile(SERVICE);
  expect(state.tools).toEqual([
    { forward: 'up', upstreamName: 'x', labels: { 'service.forward_headers': 'x-tenant' } },
  ]);
  expect(readStateFiles([{ name: 'state', text: JSON.stringify(state) }]).body).toMatchObject({ tools: state.tools });
});
