import { expect, test } from 'vitest';
import { changesToJson, formatPlan } from './report.ts';
import type { Change } from './service-state.ts';

const plain = (_format: unknown, text: string) => text;
const change = (more: Partial<Change>): Change => {
  return { action: 'update', kind: 'tool', name: 'x', namespace: 'default', members: [], notes: [], ...more };
};

test('a plan shows old and new values; JSON has complete values without secrets', () => {
  const title = 'T'.repeat(80);
  const members = [
    { member: 'description', from: 'Ours', to: 'X' },
    { member: 'annotations', to: { weight: JSON.rawJSON('1.0') } },
    { member: 'title', from: title },
    { member: 'uri', from: 'u', to: 'http://me:word@t/mcp?key=secret&b#token=x' },
  ];
  const changes = [change({ forward: 'up', upstreamName: 'y', members, widens: ['enables it'], notes: ['note'] })];
  expect(formatPlan(changes, plain)).toBe(`\
~ tool x in namespace default (forward up, upstream name y)
    description: "Ours" -> "X"
    annotations: {"weight":1.0}
    title: "${'T'.repeat(59)}… -> (none)
    uri: "u" -> "http://***@t/mcp?key=***&***#***"
    ! widens the reach of agents: enables it
    (note)

1 change: 1 to change
`);
  const json = JSON.stringify(changesToJson(changes));
  expect(json).toContain(`{"member":"annotations","to":{"weight":1.0}},{"member":"title","from":"${title}"}`);
  expect(json).not.toContain('secret');
});

test('a new entry is listed with the members that its line does not have', () => {
  const named = [
    { member: 'name', to: 'x' },
    { member: 'namespace', to: 'crm' },
  ];
  const services = { kind: 'service', name: 's', namespace: undefined, serviceType: 'tool-invoker' } as const;
  const changes = [
    change({ ...services, action: 'create', members: [{ member: 'address', to: 'h:1' }] }),
    change({ action: 'create', namespace: 'crm', members: named }),
    change({ action: 'create', kind: 'forward', name: 'up', namespace: undefined, members: named }),
  ];
  expect(formatPlan(changes, plain)).toBe(`\
+ service s (tool-invoker)
    address: "h:1"
+ tool x in namespace crm
+ forward up
    namespace: "crm"

3 changes: 3 to create
`);
});

test('a namespace is deleted with its contents, which the plan lists', () => {
  const contents = { tools: 4, resources: 0, prompts: 1, forwards: 1 };
  const changes = [change({ action: 'delete', kind: 'namespace', name: 'old', namespace: undefined, contents })];
  expect(formatPlan(changes, plain)).toBe(`\
- namespace old
    (with its contents: 4 tools, 1 prompt, 1 forward)

1 change: 1 to delete
`);
  expect(changesToJson(changes)).toMatchObject({
    changes: [{ contents, notes: ['with its contents: 4 tools, 1 prompt, 1 forward'] }],
  });
});
