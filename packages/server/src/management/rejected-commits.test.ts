import { allOperations } from '@sluice/contract';
import { expect, test } from 'vitest';
import { toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { capabilityScripts } from '../../testing/capability-scripts.ts';
import { PausableStore } from '../registry/fixtures/pausable-store.ts';
import { startApi } from './api.fixture.ts';
import { bodyFor, makeOneOfEach, named, pathOf } from './operations.fixture.ts';

// Provisioned values are not stored here, nor is the state of the inference listener. These have stores of their own.
const ELSEWHERE = ['inference', 'evaluators', 'service', 'tasks', 'identity', 'blocks', 'sign-in'];
const STORING = allOperations.filter(
  ({ id, method, body, tag }) =>
    method !== 'GET' && id !== 'testForward' && body?.kind !== 'provision' && !ELSEWHERE.includes(tag),
);

test.for(named(STORING))(
  '%s is 500 when it cannot be stored: nothing has changed, nothing is told, and the log says why',
  async ([_name, operation], context) => {
    const store = new PausableStore();
    const api = await startApi(context, { store });
    // It announces no changes: only the operations cause reads and commits.
    const scripts = { ...capabilityScripts('{"tools":{}}'), 'tools/list': toolList(toolText('found')) };
    const upstream = await startRawUpstream({ scripts });
    context.onTestFinished(upstream.close);
    await makeOneOfEach(api, upstream.url);
    // Only a refresh with changes is stored.
    upstream.scripts['tools/list'] = toolList(toolText('other'));
    const before = api.registry.current;
    const committed = store.journal.length;

    // A change of a forward cannot rename it.
    const { path } = operation;
    const isResource = path.startsWith('/api/v1/resources');
    const identity = operation.method === 'PATCH' ? {} : { name: 'y', ...(isResource && { location: 'y:1' }) };
    const made = { ...identity, labels: { changed: '1' } };
    const changing = operation.body?.kind === 'state' ? { namespaces: [made] } : made;
    const body = operation.body && { ...bodyFor(operation, upstream.url), ...changing };
    store.hold = true;
    const answering = api.call(operation.method, pathOf(operation), body);
    await expect.poll(() => store.waiting, { interval: 1 }).toBe(1);
    store.rejectAll();
    const answer = await answering;
    store.hold = false;

    expect(answer).toMatchObject({ status: 500, data: null, error: { code: 'INTERNAL' } });
    expect(answer.headers['access-control-allow-origin']).toBe('*');
    expect(answer.text).not.toContain('disk');
    expect(answer.text).not.toContain('.ts');
    expect(api.registry.current).toBe(before);
    expect(store.journal).toHaveLength(committed);
    expect(api.log.filter((line) => line.includes('the disk is full')).length).toBeGreaterThan(0);
    // It succeeds once the disk accepts it.
    const again = await api.call(operation.method, pathOf(operation), body);
    expect(Object.keys(operation.responses)).toContain(String(again.status));
  },
);
