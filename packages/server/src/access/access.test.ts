import { parseMessage, type RequestMessage } from '@sluice/protocol/mcp/message';
import { describe, expect, expectTypeOf, it } from 'vitest';
import type { ErrorOutcome } from '../http/outcome.ts';
import { Blocks } from '../identity/blocks.ts';
import { createUser, toStored } from '../identity/principal.ts';
import { changeForwardInSteps } from '../registry/change-forward.ts';
import type { Draft } from '../registry/draft.ts';
import type { Kind } from '../registry/entries.ts';
import { commit } from '../registry/fixtures/commit.ts';
import { applyCatalogs, removeForward, removeNamespace } from '../registry/fixtures/operations.ts';
import { addForward, catalog, items } from '../registry/fixtures/upstreams.ts';
import { createEntry, namespaceOf, removeEntry, updateEntry } from '../registry/operations.ts';
import { enableEntries } from '../registry/operations-enabled.ts';
import { createNamespace } from '../registry/operations-topology.ts';
import { Registry } from '../registry/registry.ts';
import { runSteps } from '../registry/steps.ts';
import { memoryLog } from '../registry/store/record-log.ts';
import { Access, type Permit, type PermitOutline, requireOutline, requirePermit } from './access.ts';
import type { Target } from './target.ts';

const ANN = createUser('ann', 'proxy');
const CRM = namespaceOf('crm');
const MISS = { kind: 'error', notFoundLocally: true };

/** A request about an entry of the namespace `crm`. */
interface Case {
  readonly what: string;
  readonly method: string;
  readonly params: object;
  readonly kind: Kind;
  readonly key: string;
}

const argument = { name: 'n', value: 'v' };
const completed = (type: string, more: object) => ({ ref: { type: `ref/${type}`, ...more }, argument });

/** About everything that the forward `one` has. */
const OF_FORWARD: readonly Case[] = [
  { what: 'a tool', method: 'tools/call', params: { name: 'a' }, kind: 'tool', key: 'a' },
  { what: 'a prompt', method: 'prompts/get', params: { name: 'p' }, kind: 'prompt', key: 'p' },
  { what: 'a resource', method: 'resources/read', params: { uri: 'x:1' }, kind: 'resource', key: 'x:1' },
  { what: 'a uri of a template', method: 'resources/read', params: { uri: 't:7' }, kind: 'resource', key: 't:{id}' },
  { what: 'a subscription', method: 'resources/subscribe', params: { uri: 'x:1' }, kind: 'resource', key: 'x:1' },
  ...[
    { what: 'of a prompt', params: completed('prompt', { name: 'p' }), kind: 'prompt', key: 'p' } as const,
    { what: 'of a uri', params: completed('resource', { uri: 't:7' }), kind: 'resource', key: 't:{id}' } as const,
    {
      what: 'of a template',
      params: completed('resource', { uri: 't:{id}' }),
      kind: 'resource',
      key: 't:{id}',
    } as const,
  ].map((one) => ({ ...one, what: `a completion ${one.what}`, method: 'completion/complete' })),
];

/** About entries that an operator has registered. */
const OF_OPERATOR: readonly (Case & { readonly input: object })[] = [
  {
    ...{ what: 'a tool of an operator', method: 'tools/call', params: { name: 'm' }, kind: 'tool', key: 'm' },
    input: { name: 'm', uri: 'http://m.test/mcp', toolType: 'mcp-forward' },
  },
  {
    ...{ what: 'a prompt of an operator', method: 'prompts/get', params: { name: 'q' }, kind: 'prompt', key: 'q' },
    input: { name: 'q', messages: [] },
  },
  {
    ...{
      what: 'a resource of an operator',
      method: 'resources/read',
      params: { uri: 'y:1' },
      kind: 'resource',
      key: 'y:1',
    },
    input: { name: 'y:1', location: 'y:1', type: 'custom' },
  },
];

const ALL: readonly Case[] = [...OF_FORWARD, ...OF_OPERATOR];

function discover(draft: Draft, name: string): void {
  const found = catalog({
    tools: items('name', ['a', 'b']),
    prompts: items('name', ['p', 'p2']),
    resources: items('uri', ['x:1']),
    templates: items('uriTemplate', ['t:{id}']),
  });
  applyCatalogs(draft, addForward(draft, name, { namespace: CRM }), [found]);
}

function addAll(draft: Draft): void {
  createNamespace(draft, CRM, {});
  discover(draft, 'one');
  for (const { kind, input } of OF_OPERATOR) createEntry(draft, kind, { ...input, namespace: CRM });
}

/** Moves the forward `one` to a namespace. */
const move = (namespace: string) => (draft: Draft) => {
  const forward = draft.forwards.get('one') ?? expect.fail('no forward');
  return runSteps(changeForwardInSteps(draft, forward, { namespace: namespaceOf(namespace) }));
};

/** `params`: as text or parsed. */
function request(method: string, params: object | string): RequestMessage {
  const text = typeof params === 'string' ? params : JSON.stringify(params);
  const message = parseMessage(Buffer.from(`{"jsonrpc":"2.0","id":1,"method":"${method}","params":${text}}`));
  if (message.kind !== 'request') throw new Error('no request');
  return message;
}

interface RequestOf {
  readonly method: string;
  readonly params: object | string;
}

/** A registry with these entries, and access to it. */
async function setUp() {
  const registry = new Registry(memoryLog());
  await registry.load();
  const change = (operation: (draft: Draft) => unknown) => commit(registry, operation);
  await change(addAll);
  const findSender = (_: string, uri: string) => (uri.startsWith('linked:') ? 'one' : undefined);
  const access = new Access(registry, findSender);
  const namespace = () => registry.current.namespace(CRM) ?? expect.fail('no namespace');
  const resolve = ({ method, params }: RequestOf) => access.resolve(namespace(), request(method, params));
  const decide = (target: Target | ErrorOutcome | undefined) =>
    target?.kind === 'target' ? access.decide(ANN, target) : expect.fail(`no target: ${target?.error.message}`);
  const permitFor = (one: RequestOf) => decide(resolve(one));
  const forwardPermit = () => decide(access.resolveForward(namespace(), request('vendor/do', {}), 'one'));
  const hide = (...forwards: string[]) => registry.hide(new Set(forwards));
  return { change, hide, resolve, permitFor, forwardPermit, registry };
}

const toolCall = (params: object | string) => ({ method: 'tools/call', params });

describe('a permit', () => {
  it.each(ALL)('for $what has the principal, the entry and the message', async (one) => {
    const { permitFor } = await setUp();
    const { principal, target, message } = permitFor(one);
    expect(principal).toBe(ANN);
    expect(target.entry).toMatchObject({ kind: one.kind, key: one.key });
    expect(message).toMatchObject({ method: one.method, params: one.params });
  });

  it('is created by nobody else', async () => {
    const { permitFor } = await setUp();
    const permit = permitFor(toolCall({ name: 'a' }));
    const { kind, principal, target, message } = permit;
    const shape = { kind, principal, target, message, as: () => permit, renew: () => permit };
    expectTypeOf(shape).not.toExtend<Permit>();
    // @ts-expect-error: an object of this shape is no permit.
    expect(() => requirePermit(shape)).toThrow('without a permit');
    const prototype: object = Object.getPrototypeOf(permit);
    for (const forged of [{}, { ...permit }, Object.create(permit), Object.create(prototype)]) {
      expect(() => requirePermit(forged)).toThrow('without a permit');
    }
    // Its class cannot be reached, neither through a permit nor through its module.
    expect(permit.constructor).toBe(Object);
    expect(Object.keys(await import('./access.ts')).sort()).toEqual([
      'Access',
      'entryNotFound',
      'requireOutline',
      'requirePermit',
      'visibleEntries',
    ]);
    expect(() => requirePermit(permit)).not.toThrow();
  });

  it('leaves an outline, which cannot be sent and is created by nobody else', async () => {
    const { change, permitFor } = await setUp();
    const permit = permitFor(toolCall({ name: 'a' }));
    const outline = permit.outline();
    expectTypeOf(outline).not.toExtend<Permit>();
    expectTypeOf(permit).not.toExtend<PermitOutline>();
    // @ts-expect-error: an outline has no message.
    expect(() => requirePermit(outline)).toThrow('without a permit');
    const { principal } = outline;
    const shape = { principal, isHidden: () => false };
    expectTypeOf(shape).not.toExtend<PermitOutline>();
    for (const forged of [shape, permit, Object.create(outline), Object.create(Object.getPrototypeOf(outline))]) {
      expect(() => requireOutline(forged)).toThrow('without a permit');
    }
    expect(() => requireOutline(outline)).not.toThrow();
    expect(outline.constructor).toBe(Object);
    expect(outline.isHidden()).toBe(false);
    // What is only gone may return.
    await change((draft) => removeForward(draft, 'one'));
    expect(outline.isHidden()).toBe(false);
  });

  it('has the same message in each form, except for the parameters of a retry', async () => {
    const { permitFor } = await setUp();
    const permit = permitFor(toolCall({ name: 'a', arguments: { n: 1 }, requestState: 's', inputResponses: {} }));
    const sent = permit.as({ inputResponses: null, requestState: null });
    expect(sent.message.params).toEqual({ name: 'a', arguments: { n: 1 } });
    expect(sent.target).toEqual({ ...permit.target, message: sent.message });
    expect(() => requirePermit(sent)).not.toThrow();
    expect(sent.renew()).toBe(sent);
    // @ts-expect-error: a form cannot change what is called.
    const forged = permit.as({ name: null, arguments: null });
    expect(forged.message.params).toEqual(permit.message.params);
  });

  it.each([
    ['{"name":"a","requestState":"s","inputResponses":{"k":{}},"n":1.0}', '{"name":"a","n":1.0}'],
    ['{"inputResponses":{},"requestState":"s","name" : "a"}', '{"name" : "a"}'],
    ['{"name":"a","n":"requestState"}', '{"name":"a","n":"requestState"}'],
  ])('changes nothing else in the text %s', async (params, sent) => {
    const { permitFor } = await setUp();
    const { message } = permitFor(toolCall(params)).as({ inputResponses: null, requestState: null });
    expect(message.text).toBe(request('tools/call', sent).text);
  });
});

describe('a renewed permit', () => {
  it.each(ALL)('for $what is the same one after other changes', async (one) => {
    const { change, permitFor } = await setUp();
    const permit = permitFor(one);
    await change((draft) => {
      discover(draft, 'other');
      createEntry(draft, 'tool', { name: 'another', namespace: CRM });
    });
    expect(permit.renew()).toBe(permit);
  });

  it.each(ALL)('for $what is "not found" while it is disabled', async (one) => {
    const { change, permitFor, resolve } = await setUp();
    const permit = permitFor(one);
    const selection = { [one.kind === 'resource' ? 'uris' : 'names']: [one.key], namespace: CRM };
    await change((draft) => enableEntries(draft, one.kind, selection, false));
    const missed = permit.renew();
    expect(missed).toMatchObject(MISS);
    expect(missed).toEqual(resolve(one));
    expect(permit.outline().isHidden()).toBe(true);
    await change((draft) => enableEntries(draft, one.kind, selection, true));
    expect(permit.outline().isHidden()).toBe(false);
    expect(permit.renew()).toMatchObject({ kind: 'permit', message: permit.message });
  });

  it.each(OF_FORWARD)(
    'for $what is "not found" once its forward is removed, or another one has its name',
    async (one) => {
      const { change, permitFor } = await setUp();
      const permit = permitFor(one);
      await change((draft) => removeForward(draft, 'one'));
      const missed = permit.renew();
      expect(missed).toMatchObject(MISS);
      await change((draft) => discover(draft, 'one'));
      expect(permit.renew()).toEqual(missed);
    },
  );

  it.each(OF_FORWARD)('for $what is "not found" once another forward serves it', async (one) => {
    const { change, permitFor, resolve } = await setUp();
    const permit = permitFor(one);
    await change((draft) => {
      discover(draft, 'two');
      removeForward(draft, 'one');
    });
    expect(resolve(one)).toMatchObject({ kind: 'target', forward: 'two' });
    expect(permit.renew()).toMatchObject(MISS);
  });

  it.each(OF_FORWARD)('for $what is "not found" once its forward does not expose it', async (one) => {
    const { change, permitFor } = await setUp();
    const permit = permitFor(one);
    await change((draft) => {
      const forward = draft.forwards.get('one') ?? expect.fail('no forward');
      runSteps(changeForwardInSteps(draft, forward, { expose: { [`${one.kind}s`]: { allow: ['nothing'] } } }));
    });
    expect(permit.renew()).toMatchObject(MISS);
  });

  it.each(OF_OPERATOR)('for $what is "not found" once that is removed, or registered again', async (one) => {
    const { change, permitFor, resolve } = await setUp();
    const permit = permitFor(one);
    await change((draft) => removeEntry(draft, one.kind, { name: one.key, namespace: CRM }));
    const missed = permit.renew();
    expect(missed).toMatchObject(MISS);
    await change((draft) => createEntry(draft, one.kind, { ...one.input, namespace: CRM }));
    expect(resolve(one)).toMatchObject({ kind: 'target' });
    expect(permit.renew()).toEqual(missed);
  });

  it.each(ALL)('for $what is "not found" once its namespace is another one of the same name', async (one) => {
    const { change, permitFor, resolve } = await setUp();
    const permit = permitFor(one);
    await change((draft) => removeNamespace(draft, CRM, true));
    expect(permit.renew()).toMatchObject(MISS);
    await change(addAll);
    expect(resolve(one)).toMatchObject({ kind: 'target' });
    expect(permit.renew()).toMatchObject(MISS);
  });

  it.each(OF_FORWARD)('for $what is "not found" in another namespace that its forward has returned to', async (one) => {
    const { change, permitFor, resolve } = await setUp();
    const permit = permitFor(one);
    await change(move('default'));
    await change((draft) => removeNamespace(draft, CRM, true));
    await change((draft) => createNamespace(draft, CRM, {}));
    await change(move(CRM));
    expect(resolve(one)).toMatchObject({ kind: 'target', registrationId: permit.target.registrationId });
    expect(permit.renew()).toMatchObject(MISS);
  });

  it.each([...OF_FORWARD, { what: 'a linked uri', method: 'resources/read', params: { uri: 'linked:1' } }])(
    'for $what is "not found", and hidden, while its forward is in another namespace',
    async (one) => {
      const { change, permitFor } = await setUp();
      const permit = permitFor(one);
      const outline = permit.outline();
      await change(move('default'));
      expect(permit.renew()).toMatchObject(MISS);
      expect(outline.isHidden()).toBe(true);
      await change(move(CRM));
      expect(outline.isHidden()).toBe(false);
    },
  );

  it.each([
    ['tool', 'tools/call'],
    ['prompt', 'prompts/get'],
  ] as const)('for a %s is "not found" once another one of the same forward has its name', async (kind, method) => {
    const { change, permitFor, resolve } = await setUp();
    const one = { method, params: { name: 'a' } };
    const rename = (name: string, to: string) => (draft: Draft) =>
      updateEntry(draft, kind, { name, namespace: CRM }, { name: to });
    if (kind === 'prompt') await change(rename('p', 'a'));
    const permit = permitFor(one);
    await change(rename('a', 'z'));
    await change(rename(kind === 'tool' ? 'b' : 'p2', 'a'));
    expect(resolve(one)).toMatchObject({ kind: 'target', registrationId: permit.target.registrationId });
    expect(permit.renew()).toMatchObject(MISS);
  });

  it('for a linked uri is the same one while its forward exists, also once that lists it', async () => {
    const { change, permitFor } = await setUp();
    const permit = permitFor({ method: 'resources/read', params: { uri: 'linked:1' } });
    expect(permit.target).toMatchObject({ forward: 'one', entry: undefined });
    expect(permit.renew()).toBe(permit);
    await change((draft) => {
      const forward = draft.forwards.get('one') ?? expect.fail('no forward');
      applyCatalogs(draft, forward, [catalog({ resources: items('uri', ['linked:1']) })]);
    });
    expect(permit.renew()).toMatchObject({ kind: 'permit', target: { forward: 'one', entry: { key: 'linked:1' } } });
    await change((draft) => removeForward(draft, 'one'));
    await change((draft) => discover(draft, 'one'));
    expect(permit.renew()).toMatchObject(MISS);
  });

  it('for a method of one forward is the same one while that is registered', async () => {
    const { change, forwardPermit } = await setUp();
    const permit = forwardPermit();
    await change((draft) => discover(draft, 'two'));
    expect(permit.renew()).toBe(permit);
    await change((draft) => removeForward(draft, 'one'));
    const missed = permit.renew();
    expect(missed).toMatchObject({ ...MISS, error: { message: 'method not found: vendor/do' } });
    await change((draft) => discover(draft, 'one'));
    expect(permit.renew()).toEqual(missed);
  });

  it('has the new state of its entry', async () => {
    const { change, permitFor } = await setUp();
    const permit = permitFor(toolCall({ name: 'm' }));
    const tool = { name: 'm', uri: 'http://other.test/mcp', toolType: 'mcp-forward' };
    await change((draft) => updateEntry(draft, 'tool', { name: 'm', namespace: CRM }, tool));
    const renewed = permit.renew();
    expect(renewed).toMatchObject({ kind: 'permit', principal: ANN, target: { address: tool.uri } });
    expect(renewed).not.toBe(permit);
  });
});

describe('a blocked forward', () => {
  it.each(OF_FORWARD)('has no $what', async (one) => {
    const { change, hide, resolve, permitFor } = await setUp();
    const outline = permitFor(one).outline();
    hide('one');
    const hidden = resolve(one);
    expect(hidden).toMatchObject(MISS);
    expect(outline.isHidden()).toBe(true);
    hide();
    expect(resolve(one)).toMatchObject({ kind: 'target' });
    expect(outline.isHidden()).toBe(false);
    await change((draft) => removeForward(draft, 'one'));
    expect(resolve(one)).toEqual(hidden);
  });

  it('leaves what others have, but nothing of theirs in its place', async () => {
    const { change, hide, resolve } = await setUp();
    await change((draft) => discover(draft, 'two'));
    hide('one');
    // Shadowed by those of the blocked one.
    for (const one of OF_FORWARD) expect(resolve(one), one.what).toMatchObject(MISS);
    for (const one of OF_OPERATOR) expect(resolve(one), one.what).toMatchObject({ kind: 'target' });
    // Not the only one with resources.
    expect(resolve({ method: 'resources/read', params: { uri: 'other:1' } })).toMatchObject(MISS);
    expect(resolve({ method: 'resources/read', params: { uri: 'linked:1' } })).toMatchObject(MISS);
  });

  it('has no methods of its own, and calls that wait are not sent', async () => {
    const { hide, permitFor, forwardPermit } = await setUp();
    const [call, vendor] = [permitFor(toolCall({ name: 'a' })), forwardPermit()];
    hide('one');
    expect([call.renew(), vendor.renew()]).toMatchObject([MISS, { kind: 'error' }]);
    expect(() => forwardPermit()).toThrow('method not found');
  });

  it('stays hidden whatever is committed, and back at once when it is not blocked any more', async () => {
    const { change, hide, resolve, registry } = await setUp();
    const lists: unknown[] = [];
    registry.committed.subscribe((commit) => lists.push(commit.lists));
    hide('one');
    expect(lists).toEqual([['tool', 'resource', 'prompt'].map((kind) => ({ namespace: 'crm', kind }))]);
    await change((draft) => addForward(draft, 'two', { namespace: CRM }));
    await change(move('hr'));
    await change(move('crm'));
    await change((draft) => createNamespace(draft, namespaceOf('new'), {}));
    expect(resolve(toolCall({ name: 'a' }))).toMatchObject(MISS);
    hide();
    expect(resolve(toolCall({ name: 'a' }))).toMatchObject({ kind: 'target' });
    expect([...registry.current.namespaces.values()].filter(({ hidden }) => hidden?.size)).toEqual([]);
  });
});

it('the outline of a blocked principal is hidden', async () => {
  const registry = new Registry(memoryLog());
  await registry.load();
  await commit(registry, addAll);
  const blocks = new Blocks();
  const access = new Access(registry, () => undefined, blocks);
  const outline = access.outline(ANN, { namespace: CRM, forward: 'one' });
  const task = { namespace: CRM, tool: { key: 'a' }, principal: toStored(ANN) };
  expect([outline.isHidden(), access.checkStored(task)]).toEqual([false, undefined]);
  blocks.set('ann', { since: 0 });
  expect([outline.isHidden(), access.checkStored(task)]).toMatchObject([true, { kind: 'error' }]);
});
