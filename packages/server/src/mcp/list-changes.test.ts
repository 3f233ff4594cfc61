import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { EvaluatorSet } from '../policy/evaluator-set.ts';
import { evaluatorDefinition } from '../policy/fixtures/evaluator-definition.ts';
import type { DiscoveredCatalog } from '../registry/catalogs.ts';
import { DEFAULT_NAMESPACE, type Namespace, parseNamespace } from '../registry/entries.ts';
import { commit } from '../registry/fixtures/commit.ts';
import { applyCatalogs, removeNamespace } from '../registry/fixtures/operations.ts';
import { addForward, catalog, items } from '../registry/fixtures/upstreams.ts';
import { createEntry, updateEntry } from '../registry/operations.ts';
import { createNamespace, labelNamespace } from '../registry/operations-topology.ts';
import { Registry } from '../registry/registry.ts';
import { memoryLog } from '../registry/store/record-log.ts';
import { ListChangeNotifier } from './list-changes.ts';

const OPS = parseNamespace('ops') ?? DEFAULT_NAMESPACE;
const TOOL = { description: '', uri: 'u', toolType: 'custom', input_schema: {} };
const CACHE = { 'tools/list': { ttlMs: 1, cacheScope: 'public' as const } };

let registry: Registry;
let notifier: ListChangeNotifier;
beforeEach(async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  registry = new Registry(memoryLog());
  notifier = new ListChangeNotifier(registry);
  await registry.load();
  await commit(registry, (draft) => {
    createNamespace(draft, 'ops', {});
    createEntry(draft, 'tool', { ...TOOL, name: 'mine', namespace: 'ops' });
  });
});
afterEach(() => {
  vi.useRealTimers();
});

/** Listens and records the notifications. */
function listen(namespace: Namespace = OPS): { notifications: string[]; stop: () => void } {
  const notifications: string[] = [];
  const stop = notifier.subscribe(namespace, {
    onEntriesChanged: (kinds) => void notifications.push(`touched ${[...kinds]}`),
    onChanged: (kinds) => void notifications.push(`changed ${[...kinds]}`),
    onDeleted: () => void notifications.push('gone'),
  });
  return { notifications, stop };
}

function add(name: string, namespace = 'ops') {
  return commit(registry, (draft) => createEntry(draft, 'tool', { ...TOOL, name, namespace }));
}

/** Makes discovery of the forward `up` return exactly these. */
function discovered(...catalogs: readonly DiscoveredCatalog[]) {
  return commit(registry, (draft) => {
    const forward = draft.forwards.get('up') ?? addForward(draft, 'up', { namespace: OPS });
    applyCatalogs(draft, forward, catalogs);
  });
}

describe('notifier', () => {
  it('report the first change immediately and combine the following ones', async () => {
    const { notifications } = listen();
    await add('a');
    vi.advanceTimersByTime(1);
    expect(notifications).toEqual(['touched tool', 'changed tool']);
    for (let at = 0; at < 50; at++) await add(`more${at}`);
    await commit(registry, (draft) => createEntry(draft, 'prompt', { name: 'p', namespace: 'ops', template: 't' }));
    vi.advanceTimersByTime(50);
    expect(notifications.length).toBe(2);
    vi.advanceTimersByTime(50);
    expect(notifications.slice(2)).toEqual(['touched tool,prompt', 'changed tool,prompt']);
    vi.advanceTimersByTime(10_000);
    expect(notifications.length).toBe(4);
  });

  it('are about one namespace', async () => {
    const { notifications } = listen(DEFAULT_NAMESPACE);
    await add('a');
    vi.advanceTimersByTime(1_000);
    expect(notifications).toEqual([]);
  });

  it('do not report changes that clients cannot see', async () => {
    await discovered(catalog({ tools: items('name', ['a', 'b']) }));
    const { notifications } = listen();
    await commit(registry, (draft) => labelNamespace(draft, 'ops', { a: '1' }));
    await discovered(catalog({ tools: items('name', ['a', 'b']) }));
    vi.advanceTimersByTime(1_000);
    expect(notifications).toEqual([]);
    await commit(registry, (draft) =>
      updateEntry(draft, 'tool', { name: 'mine', namespace: 'ops' }, { ...TOOL, labels: { a: '1' } }),
    );
    await discovered(catalog({ tools: items('name', ['a', 'b']), cache: CACHE }));
    vi.advanceTimersByTime(1_000);
    expect(notifications).toEqual(['touched tool']);
  });

  it.each<[string, readonly DiscoveredCatalog[]]>([
    ['another text', [catalog({ tools: items('name', ['a', 'b'], ',"x":1') })]],
    ['another order', [catalog({ tools: items('name', ['b', 'a']) })]],
    ['an entry less', [catalog({ tools: items('name', ['a']) })]],
    [
      'other client capabilities',
      [catalog({ tools: items('name', ['a', 'b']) }), catalog({ key: 'legacy:{"x":{}}', tools: items('name', ['a']) })],
    ],
    [
      'a catalog more',
      [
        catalog({ tools: items('name', ['a', 'b']) }),
        catalog({ key: 'legacy:{"x":{}}', tools: items('name', ['a', 'b']) }),
      ],
    ],
  ])('report %s', async (_what, found) => {
    await discovered(catalog({ tools: items('name', ['a', 'b']) }));
    const { notifications } = listen();
    await discovered(...found);
    vi.advanceTimersByTime(1);
    expect(notifications).toEqual(['touched tool', 'changed tool']);
  });

  it('report a resource that became a template', async () => {
    await discovered(catalog({ resources: items('uri', ['r://{x}']) }));
    const { notifications } = listen();
    await discovered(catalog({ templates: items('uriTemplate', ['r://{x}']) }));
    vi.advanceTimersByTime(1);
    expect(notifications).toEqual(['touched resource', 'changed resource']);
  });

  describe('of evaluators', () => {
    /** Evaluators as [method, namespace, other settings]. */
    function set(...judging: readonly (readonly [method: string, namespace: string | null, checksum?: string])[]) {
      return new EvaluatorSet(
        1,
        judging.map(([method, namespace, checksum = 'one']) => ({
          definition: { ...evaluatorDefinition('gate'), trigger: { method, namespace } },
          connection: { name: 'model', model: 'm', url: 'http://h' },
          action: { checksum, glue: '', modules: [] },
          schema: undefined,
        })),
      );
    }

    it.each([
      ['tools/list', 'tool'],
      ['resources/list', 'resource'],
      ['resources/templates/list', 'resource'],
      ['prompts/list', 'prompt'],
    ])('report that other evaluators filter %s', (method, kind) => {
      notifier.setEvaluators(set([method, 'default']));
      const { notifications } = listen();
      const sets = [
        set([method, 'ops'], [method, 'default']),
        set([method, null]),
        set([method, null, 'another']),
        set([method, null, 'another'], [method, 'ops']),
        set([method, 'ops'], [method, null, 'another']),
        set(),
      ];
      for (const [at, each] of sets.entries()) {
        notifier.setEvaluators(each);
        vi.advanceTimersByTime(100);
        expect(notifications).toEqual(Array(at + 1).fill(`changed ${kind}`));
      }
    });

    it('ignore evaluators that filter no list of the namespace, or the same lists as before', () => {
      notifier.setEvaluators(set(['tools/list', null], ['prompts/get', null]));
      const { notifications } = listen();
      notifier.setEvaluators(set(['tools/call', null], ['tools/list', null], ['prompts/list', 'default']));
      vi.advanceTimersByTime(1_000);
      expect(notifications).toEqual([]);
    });

    it('combine changed evaluators with registry changes', async () => {
      const { notifications } = listen();
      await add('a');
      notifier.setEvaluators(set(['prompts/list', 'ops']));
      vi.advanceTimersByTime(1_000);
      expect(notifications).toEqual(['touched tool', 'changed tool,prompt']);
    });
  });

  it('report a deleted namespace once, also to late listeners', async () => {
    const { notifications } = listen();
    await commit(registry, (draft) => removeNamespace(draft, 'ops', true));
    vi.advanceTimersByTime(1);
    const late = listen();
    expect(late.notifications).toEqual([]);
    await commit(registry, (draft) => createNamespace(draft, 'other', {}));
    vi.advanceTimersByTime(1_000);
    expect([notifications, late.notifications]).toEqual([['gone'], ['gone']]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('compare a recreated namespace with its previous state', async () => {
    const { notifications } = listen();
    await commit(registry, (draft) => {
      removeNamespace(draft, 'ops', true);
      createNamespace(draft, 'ops', {});
    });
    vi.advanceTimersByTime(1);
    expect(notifications).toEqual(['touched tool,resource,prompt', 'changed tool']);
  });

  it('do not report changes from before the subscription', async () => {
    const first = listen();
    await add('a');
    const second = listen();
    expect(first.notifications).toEqual(['touched tool', 'changed tool']);
    vi.advanceTimersByTime(1_000);
    expect(second.notifications).toEqual([]);
    first.stop();
    await add('b');
    vi.advanceTimersByTime(1_000);
    expect([first.notifications.length, second.notifications.length]).toEqual([2, 2]);
  });

  it('do no work without listeners', async () => {
    const subscribe = vi.spyOn(registry.committed, 'subscribe');
    listen().stop();
    await add('a');
    expect(vi.getTimerCount()).toBe(0);
    const { notifications } = listen();
    await add('b');
    notifier.close();
    vi.advanceTimersByTime(1_000);
    expect(notifications).toEqual([]);
    expect([vi.getTimerCount(), subscribe.mock.calls.length]).toEqual([0, 2]);
  });
});
