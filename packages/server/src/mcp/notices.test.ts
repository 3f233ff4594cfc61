import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { EvaluatorSet } from '../policy/evaluator-set.ts';
import { definition } from '../policy/fixtures/definition.ts';
import { applyCatalogues, type FoundCatalogue } from '../registry/catalogs.ts';
import { DEFAULT_NAMESPACE, type Namespace, parseNamespace } from '../registry/entries.ts';
import { addForward, catalogue, items } from '../registry/fixtures/upstreams.ts';
import { createEntry, updateEntry } from '../registry/operations.ts';
import { createNamespace, labelNamespace, removeNamespace } from '../registry/operations-topology.ts';
import { Registry } from '../registry/registry.ts';
import { memoryStore } from '../registry/store/store.ts';
import { ListChangeNotifier } from './list-changes.ts';

const OPS = parseNamespace('ops') ?? DEFAULT_NAMESPACE;
const TOOL = { description: '', uri: 'u', toolType: 'custom', input_schema: {} };
const CACHE = { 'tools/list': { ttlMs: 1, cacheScope: 'public' as const } };

let registry: Registry;
let notices: ListChangeNotifier;
beforeEach(async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  registry = new Registry(memoryStore());
  notices = new ListChangeNotifier(registry);
  await registry.load();
  await registry.commit((draft) => {
    createNamespace(draft, 'ops', {});
    createEntry(draft, 'tool', { ...TOOL, name: 'mine', namespace: 'ops' });
  });
});
afterEach(() => {
  vi.useRealTimers();
});

/** Listens, and writes down what it is told. */
function listen(namespace: Namespace = OPS): { told: string[]; stop: () => void } {
  const told: string[] = [];
  const stop = notices.subscribe(namespace, {
    onTouched: (kinds) => void told.push(`touched ${[...kinds]}`),
    onChanged: (kinds) => void told.push(`changed ${[...kinds]}`),
    onGone: () => void told.push('gone'),
  });
  return { told, stop };
}

function add(name: string, namespace = 'ops') {
  return registry.commit((draft) => createEntry(draft, 'tool', { ...TOOL, name, namespace }));
}

/** Has the forward `up` found exactly these. */
function discovered(...catalogues: readonly FoundCatalogue[]) {
  return registry.commit((draft) => {
    const forward = draft.forwards.get('up') ?? addForward(draft, 'up', { namespace: OPS });
    applyCatalogues(draft, forward, catalogues);
  });
}

describe('notices', () => {
  it('tell the first change at once and what follows on it together', async () => {
    const { told } = listen();
    await add('a');
    vi.advanceTimersByTime(1);
    expect(told).toEqual(['touched tool', 'changed tool']);
    for (let at = 0; at < 50; at++) await add(`more${at}`);
    await registry.commit((draft) => createEntry(draft, 'prompt', { name: 'p', namespace: 'ops', template: 't' }));
    vi.advanceTimersByTime(50);
    expect(told.length).toBe(2);
    vi.advanceTimersByTime(50);
    expect(told.slice(2)).toEqual(['touched tool,prompt', 'changed tool,prompt']);
    vi.advanceTimersByTime(10_000);
    expect(told.length).toBe(4);
  });

  it('are about one namespace', async () => {
    const { told } = listen(DEFAULT_NAMESPACE);
    await add('a');
    vi.advanceTimersByTime(1_000);
    expect(told).toEqual([]);
  });

  it('say nothing of what clients cannot see', async () => {
    await discovered(catalogue({ tools: items('name', ['a', 'b']) }));
    const { told } = listen();
    await registry.commit((draft) => labelNamespace(draft, 'ops', { a: '1' }));
    await discovered(catalogue({ tools: items('name', ['a', 'b']) }));
    vi.advanceTimersByTime(1_000);
    expect(told).toEqual([]);
    await registry.commit((draft) =>
      updateEntry(draft, 'tool', { name: 'mine', namespace: 'ops' }, { ...TOOL, labels: { a: '1' } }),
    );
    await discovered(catalogue({ tools: items('name', ['a', 'b']), cache: CACHE }));
    vi.advanceTimersByTime(1_000);
    expect(told).toEqual(['touched tool']);
  });

  it.each<[string, readonly FoundCatalogue[]]>([
    ['another text', [catalogue({ tools: items('name', ['a', 'b'], ',"x":1') })]],
    ['another order', [catalogue({ tools: items('name', ['b', 'a']) })]],
    ['an entry less', [catalogue({ tools: items('name', ['a']) })]],
    [
      'other clients who get it',
      [
        catalogue({ tools: items('name', ['a', 'b']) }),
        catalogue({ key: 'legacy:{"x":{}}', tools: items('name', ['a']) }),
      ],
    ],
    [
      'a catalogue more',
      [
        catalogue({ tools: items('name', ['a', 'b']) }),
        catalogue({ key: 'legacy:{"x":{}}', tools: items('name', ['a', 'b']) }),
      ],
    ],
  ])('tell of %s', async (_what, found) => {
    await discovered(catalogue({ tools: items('name', ['a', 'b']) }));
    const { told } = listen();
    await discovered(...found);
    vi.advanceTimersByTime(1);
    expect(told).toEqual(['touched tool', 'changed tool']);
  });

  it('tell of a resource that has become a template', async () => {
    await discovered(catalogue({ resources: items('uri', ['r://{x}']) }));
    const { told } = listen();
    await discovered(catalogue({ templates: items('uriTemplate', ['r://{x}']) }));
    vi.advanceTimersByTime(1);
    expect(told).toEqual(['touched resource', 'changed resource']);
  });

  describe('of evaluators', () => {
    /** A set of evaluators: method, namespace and what else is different of each. */
    function set(...judging: readonly (readonly [method: string, namespace: string | null, checksum?: string])[]) {
      return new EvaluatorSet(
        1,
        judging.map(([method, namespace, checksum = 'one']) => ({
          definition: { ...definition('gate'), trigger: { method, namespace } },
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
    ])('tell that others judge %s than before', (method, kind) => {
      notices.judgedBy(set([method, 'default']));
      const { told } = listen();
      const sets = [
        set([method, 'ops'], [method, 'default']),
        set([method, null]),
        set([method, null, 'another']),
        set([method, null, 'another'], [method, 'ops']),
        set([method, 'ops'], [method, null, 'another']),
        set(),
      ];
      for (const [at, each] of sets.entries()) {
        notices.judgedBy(each);
        vi.advanceTimersByTime(100);
        expect(told).toEqual(Array(at + 1).fill(`changed ${kind}`));
      }
    });

    it('say nothing of those that judge no list of the namespace, or as before', () => {
      notices.judgedBy(set(['tools/list', null], ['prompts/get', null]));
      const { told } = listen();
      notices.judgedBy(set(['tools/call', null], ['tools/list', null], ['prompts/list', 'default']));
      vi.advanceTimersByTime(1_000);
      expect(told).toEqual([]);
    });

    it('tell of them together with what changes in the registry', async () => {
      const { told } = listen();
      await add('a');
      notices.judgedBy(set(['prompts/list', 'ops']));
      vi.advanceTimersByTime(1_000);
      expect(told).toEqual(['touched tool', 'changed tool,prompt']);
    });
  });

  it('say that a namespace is gone, once, also to who comes too late', async () => {
    const { told } = listen();
    await registry.commit((draft) => removeNamespace(draft, 'ops', true));
    vi.advanceTimersByTime(1);
    const late = listen();
    expect(late.told).toEqual([]);
    await registry.commit((draft) => createNamespace(draft, 'other', {}));
    vi.advanceTimersByTime(1_000);
    expect([told, late.told]).toEqual([['gone'], ['gone']]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('compare a namespace that was made anew with what it was', async () => {
    const { told } = listen();
    await registry.commit((draft) => {
      removeNamespace(draft, 'ops', true);
      createNamespace(draft, 'ops', {});
    });
    vi.advanceTimersByTime(1);
    expect(told).toEqual(['touched tool,resource,prompt', 'changed tool']);
  });

  it('tell nobody of what came before them', async () => {
    const first = listen();
    await add('a');
    const second = listen();
    expect(first.told).toEqual(['touched tool', 'changed tool']);
    vi.advanceTimersByTime(1_000);
    expect(second.told).toEqual([]);
    first.stop();
    await add('b');
    vi.advanceTimersByTime(1_000);
    expect([first.told.length, second.told.length]).toEqual([2, 2]);
  });

  it('cost nothing while nobody listens', async () => {
    const onChange = vi.spyOn(registry, 'onChange');
    listen().stop();
    await add('a');
    expect(vi.getTimerCount()).toBe(0);
    const { told } = listen();
    await add('b');
    notices.close();
    vi.advanceTimersByTime(1_000);
    expect(told).toEqual([]);
    expect([vi.getTimerCount(), onChange.mock.calls.length]).toEqual([0, 2]);
  });
});
