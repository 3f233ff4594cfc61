import { expect, test } from 'vitest';
import { applyOverrides, NO_OVERRIDES } from './discovered-tools.ts';

const TOOL = {
  forward: 'up',
  upstreamName: 'x',
  namespace: 'ops',
  name: 'say',
  shadowed: false,
  enabled: false,
  labels: { 'service.own': '1', 'service.forward_headers': 'x-tenant', team: 'a' },
  members: { uri: 'http://one/mcp', toolType: 'mcp-forward', description: 'Ours', id: '7' },
  upstream: { description: 'X', input_schema: {}, title: 'T' },
};
const HOME = { namespace: 'crm', prefix: 'p_' };
const FIXED = { uri: 'http://one/mcp', toolType: 'mcp-forward' };

test('without desired members follows forward and upstream, except for labels set by the service', () => {
  expect(applyOverrides(NO_OVERRIDES, TOOL, HOME)).toEqual({
    name: 'p_x',
    namespace: 'crm',
    labels: { 'service.own': '1' },
    enabled: false,
    members: { ...FIXED, description: 'X', input_schema: {}, title: 'T' },
  });
});

test('null removes a member; a description always exists', () => {
  const members = { title: null, description: null, input_schema: { type: 'object' }, vendor: 1 };
  expect(applyOverrides({ name: 'n', namespace: 'm', labels: { a: 'b' }, enabled: true, members }, TOOL, HOME)).toEqual(
    {
      name: 'n',
      namespace: 'm',
      labels: { a: 'b', 'service.own': '1' },
      enabled: true,
      members: { ...FIXED, description: '', input_schema: { type: 'object' }, vendor: 1 },
    },
  );
});
