import { afterEach, expect, it } from 'vitest';
import { toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { DEFAULT_LOG_FILTER } from '../app/config/environment.ts';
import { Secrets } from '../http/secrets/secrets.ts';
import { ANONYMOUS } from '../identity/principal.ts';
import { ClientProfiles } from '../mcp/client-profile.ts';
import { DEFAULT_NAMESPACE } from '../registry/entries.ts';
import { commit } from '../registry/fixtures/commit.ts';
import { removeForward } from '../registry/fixtures/operations.ts';
import { addForward, type ForwardInput } from '../registry/operations-topology.ts';
import { Registry } from '../registry/registry.ts';
import { memoryLog } from '../registry/store/record-log.ts';
import { createLogger } from '../telemetry/log.ts';
import { unlimitedOperations } from './fixtures/operations.ts';
import { ForwardHistory } from './forward-history.ts';
import { ForwardValidator } from './forward-validator.ts';
import { Forwards } from './forwards.ts';
import { ForwardKinds } from './kinds.ts';

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

/** `stored`: a forward that is registered before the start. */
async function start(stored?: ForwardInput) {
  const registry = new Registry(memoryLog());
  await registry.load();
  const log = createLogger(DEFAULT_LOG_FILTER, () => undefined).target('service::forward');
  const [kinds, secrets] = [new ForwardKinds(), new Secrets()];
  const clientInfo = { name: 'sluice', title: 'Sluice', version: '9.9' };
  const forwards = new Forwards({
    operations: unlimitedOperations(),
    registry,
    secrets,
    kinds,
    validator: new ForwardValidator(kinds, secrets),
    log,
    clientInfo,
    healthCheckIntervalMs: 0,
  });
  const history = new ForwardHistory(registry, forwards);
  closers.push(
    () => registry.close(),
    () => forwards.close(),
  );
  if (stored) await commit(registry, (draft) => addForward(draft, stored));
  forwards.open();
  const add = async (name: string, address: string) => {
    await commit(registry, (draft) => addForward(draft, input(name, address)));
    await forwards.settled(name);
  };
  const remove = (name: string) => commit(registry, (draft) => removeForward(draft, name));
  return { registry, forwards, history, add, remove };
}

const CAUSE = { namespace: { name: 'default' }, principal: ANONYMOUS, head: {} };

function input(name: string, address: string): ForwardInput {
  return { name, address, namespace: DEFAULT_NAMESPACE, labels: {}, prefix: '' };
}

it('a forward is pending before its first discovery after a start', async () => {
  const { forwards, add } = await start(input('a', 'http://127.0.0.1:9/mcp'));
  expect(forwards.status('a')).toEqual({ available: false, statusMessage: 'discovery pending' });
  await add('b', 'http://127.0.0.1:9/mcp');
  expect(forwards.status('b')).toEqual({ available: false, statusMessage: expect.stringContaining('refused') });
});

it('discovery sends the identity of the gateway in both eras', async () => {
  const upstream = await startRawUpstream();
  closers.push(() => upstream.close());
  const { forwards, add } = await start();
  forwards.profiles.onLegacyClient();
  await add('a', upstream.url);
  const clientInfo = { name: 'sluice', title: 'Sluice', version: '9.9' };
  expect(upstream.seen.find(({ method }) => method === 'initialize')?.params).toMatchObject({ clientInfo });
  expect(upstream.seen.find(({ method }) => method === 'server/discover')?.params).toMatchObject({
    _meta: { 'io.modelcontextprotocol/clientInfo': clientInfo },
  });
});

it('the first legacy client triggers the legacy probe of upstreams, and waits for it', async () => {
  const upstream = await startRawUpstream();
  upstream.scripts['tools/list'] = toolList(toolText('a'));
  closers.push(() => upstream.close());
  const { registry, forwards, add } = await start();
  const eras = () => registry.current.forwards.get('a')?.catalogs.map(({ era }) => era);
  const profiles = new ClientProfiles(registry, { name: 'sluice', title: 'Sluice', version: '9.9' });
  await add('a', upstream.url);
  expect(forwards.profiles.ensureDiscoveredFor(profiles.of('modern', {}), CAUSE)).toBeUndefined();
  expect([upstream.count('initialize'), eras()]).toEqual([0, ['modern', 'modern']]);
  forwards.profiles.onLegacyClient();
  await forwards.profiles.ensureDiscoveredFor(profiles.of('legacy', {}), CAUSE);
  expect(eras()).toEqual(expect.arrayContaining(['legacy', 'modern']));
  expect(forwards.upstreams.of('a')?.eras.known).toEqual(new Set(['legacy', 'modern']));
  const before = upstream.count('initialize');
  forwards.profiles.onLegacyClient();
  expect(forwards.profiles.ensureDiscoveredFor(profiles.of('legacy', {}), CAUSE)).toBeUndefined();
  expect(upstream.count('initialize')).toBe(before);
});

it('two clients that declare the same new capabilities concurrently both get the list for them', async () => {
  const gate = Promise.withResolvers<void>();
  const upstream = await startRawUpstream({ eras: ['legacy'] });
  const askers = new Set<string>();
  upstream.scripts.initialize = async ({ params }) => {
    if (JSON.stringify(params.capabilities) === '{"sampling":{}}') {
      askers.add('sampling');
      await gate.promise;
    }
    return '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}';
  };
  upstream.scripts['tools/list'] = toolList(toolText('a'));
  closers.push(() => upstream.close());
  const { registry, forwards, add } = await start();
  await add('a', upstream.url);
  const profiles = new ClientProfiles(registry, { name: 'sluice', title: 'Sluice', version: '9.9' });
  const one = forwards.profiles.ensureDiscoveredFor(profiles.of('legacy', { sampling: {} }), CAUSE);
  const other = forwards.profiles.ensureDiscoveredFor(profiles.of('legacy', { sampling: {} }), CAUSE);
  gate.resolve();
  for (const snapshot of await Promise.all([one, other])) {
    const known = snapshot?.forwards.get('a')?.catalogs.map(({ key }) => key);
    expect(known).toContain('legacy:{"sampling":{}}');
  }
  expect(askers.size).toBe(1);
  expect(forwards.profiles.ensureDiscoveredFor(profiles.of('legacy', { sampling: {} }), CAUSE)).toBeUndefined();
});

it('the address of a tool uses the first forward there, or separate connections if there is none', async () => {
  const { forwards, add, remove } = await start();
  const address = 'http://127.0.0.1:9/mcp';
  const own = forwards.upstreams.at(address);
  expect(forwards.upstreams.at(address)).toBe(own);
  await add('a', address);
  await add('b', address);
  expect(forwards.upstreams.at(address)).toBe(forwards.upstreams.of('a'));
  await remove('a');
  expect(forwards.upstreams.at(address)).toBe(forwards.upstreams.of('b'));
  await remove('b');
  expect(forwards.upstreams.at(address)).toBe(own);
});

it('what is registered before the start is discovered once, when that has ended', async () => {
  const upstream = await startRawUpstream({ scripts: { 'tools/list': toolList(toolText('a')) } });
  closers.push(() => upstream.close());
  const { registry, forwards, history } = await start(input('a', upstream.url));
  await forwards.settled('a');
  expect(upstream.seen).toEqual([]);
  forwards.start();
  await expect.poll(() => forwards.status('a').available).toBe(true);
  expect([...registry.current.entries('tool')].map(({ key }) => key)).toEqual(['a']);
  expect(history.of('a').filter(({ kind }) => kind === 'discovered')).toHaveLength(1);
});
