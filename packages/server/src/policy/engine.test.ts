import { parseMessage } from '@sluice/protocol/mcp/message';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type ChatCompletions, startChatCompletions } from '../../testing/chat-completions.ts';
import { DEFAULT_LOG_FILTER } from '../app/config/environment.ts';
import { type Outcome, RequestContext } from '../http/context.ts';
import { InteractionStore } from '../inference/interaction-store.ts';
import { NullResponse } from '../mcp/listener.ts';
import { ResponseWriter } from '../mcp/response.ts';
import { HeldStore } from '../registry/fixtures/held-store.ts';
import { createEntry } from '../registry/operations.ts';
import { createNamespace, removeNamespace } from '../registry/operations-topology.ts';
import { Registry } from '../registry/registry.ts';
import { memoryStore, type Store } from '../registry/store/store.ts';
import { createLogger } from '../telemetry/log.ts';
import { ServiceMetrics } from '../telemetry/metrics/service-metrics.ts';
import { type InFlightCall, InFlightCalls } from '../upstreams/mcp/relay/in-flight.ts';
import { EvaluatorEngine } from './engine.ts';
import { EvaluatorSet } from './evaluator-set.ts';
import { LlmClient } from './llm/client.ts';
import type { CompiledSchema } from './llm/result-schema.ts';
import { ActionNotStartedError, type ActionResponse, type ActionRun, type HostAnswers } from './sandbox/action.ts';

const TOOL = { name: 'mine', description: 'd', uri: 'http://own.test/', toolType: 'own', input_schema: {} };
const REQUEST = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mine"}}';

/** A step of a judgement that takes until the test says so. */
class Held<T> {
  readonly #reached = Promise.withResolvers<void>();
  readonly #over = Promise.withResolvers<T>();

  /** Resolves when the judgement has got there. */
  get reached(): Promise<void> {
    return this.#reached.promise;
  }

  wait(): Promise<T> {
    this.#reached.resolve();
    return this.#over.promise;
  }

  end(value: T): void {
    this.#over.resolve(value);
  }

  fail(error: Error): void {
    this.#over.promise.catch(() => undefined);
    this.#over.reject(error);
  }
}

let llm: ChatCompletions;
let client: LlmClient;
let calls: InFlightCalls<InFlightCall>;
beforeEach(async () => {
  llm = await startChatCompletions();
  client = new LlmClient();
  calls = new InFlightCalls<InFlightCall>({ silenceMs: 40, totalMs: 80 });
});
afterEach(async () => {
  calls.close();
  await client.close();
  await llm.close();
});

interface Judging {
  readonly schema?: CompiledSchema;
  readonly store?: Store;
  readonly request?: string;
}

/** An engine whose action is run by the test, and a request of a client of the modern era that it is to judge. */
async function judging({ schema, store = memoryStore(), request = REQUEST }: Judging = {}) {
  const registry = new Registry(store);
  await registry.load();
  await registry.commit((draft) => createEntry(draft, 'tool', TOOL));
  const lines: string[] = [];
  const metrics = new ServiceMetrics();
  const run = new Held<ActionResponse>();
  const runs: HostAnswers[] = [];
  const signals: (AbortSignal | undefined)[] = [];
  const evaluator = {
    definition: {
      name: 'gate',
      trigger: { method: 'tools/call', namespace: null },
      llm: { operation: 'classify' as const, prompt: 'Judge.', connection: 'judge', result_schema: null },
      processor: { path: 'gate.wasm' },
      on_error: 'block' as const,
    },
    connection: { name: 'judge', model: 'm', url: llm.url },
    action: { checksum: '', glue: '', modules: [] },
    schema,
  };
  const engine = new EvaluatorEngine({
    evaluators: { current: new EvaluatorSet(1, [evaluator]) },
    bindings: { get: () => undefined },
    llm: client,
    actions: {
      async run(_action, _context, answers, signal): Promise<ActionRun> {
        runs.push(answers);
        signals.push(signal);
        return { response: await run.wait(), ignoredResponses: 0, durationMs: 1.23456 };
      },
      close: async () => {},
    },
    registry,
    interactions: new InteractionStore(1),
    calls,
    metrics,
    log: createLogger(DEFAULT_LOG_FILTER, (line) => lines.push(line)).target('service::evaluator'),
  });
  const context = new RequestContext('POST', '/default/mcp', {}, Buffer.from(request));
  const message = parseMessage(context.body);
  if (message.kind !== 'request') throw new Error('the request is none');
  context.message = message;
  context.era = 'modern';
  context.namespace = registry.current.namespace('default');
  const leaving: (() => void)[] = [];
  context.client = { on: (_event, listener) => leaving.push(listener) };
  return {
    engine,
    context,
    registry,
    run,
    runs,
    signals,
    leave: () => {
      for (const listener of leaving) listener();
    },
    lines: () => lines.map((line): Record<string, unknown> => JSON.parse(line)),
    decisions: () => metrics.snapshot().evaluators.gate?.decisions,
    executions: () => metrics.snapshot().evaluators.gate?.wasm.executions,
    failures: () => metrics.evaluators.get('gate')?.failures,
  };
}

/** Whether the outcome ends the answer to the request, as that of a request nobody waits for. */
function ends(outcome: Outcome | undefined): boolean {
  if (outcome?.kind !== 'stream') return false;
  const target = new NullResponse();
  outcome.start(new ResponseWriter(target, [], '1'));
  return target.writableEnded;
}

const NOTHING = { pass: 0, block: 0, reject_malformed: 0, warn: 0, filter_tools: 0, set_metadata: 0 };
const CANCELLED = { level: 'info', msg: 'evaluator not waited for', decision: 'cancelled' };

describe('a request whose client leaves', () => {
  it('while its action runs is over at once, and what the action says then has no effect', async () => {
    const { engine, context, registry, run, runs, signals, leave, lines, decisions, failures } = await judging();
    const outcome = engine.judge(context);
    await run.reached;
    runs[0]?.copyTool('mine', 'copies');
    leave();
    expect(ends(await outcome)).toBe(true);
    expect(calls.size).toBe(0);
    // Had it not begun, it would not begin any more.
    expect(signals.map((signal) => signal?.aborted)).toEqual([true]);
    run.end({ kind: 'set_metadata', key: 'a', value: 'b' });
    await expect.poll(lines).toMatchObject([CANCELLED]);
    expect(context.metadata.get('a')).toBeUndefined();
    expect(registry.current.namespace('copies')).toBeUndefined();
    expect([decisions(), failures()]).toEqual([NOTHING, { llm_failure: 0, action_failure: 0 }]);
  });

  it('while the answer of the LLM is looked at has its action not run', async () => {
    const validation = new Held<string | undefined>();
    const { engine, context, runs, leave, lines } = await judging({
      schema: { text: '{}', validate: () => validation.wait() },
    });
    const outcome = engine.judge(context);
    await validation.reached;
    leave();
    expect(ends(await outcome)).toBe(true);
    validation.end(undefined);
    await expect.poll(lines).toMatchObject([CANCELLED]);
    expect(runs).toEqual([]);
  });

  it('when it has been judged is judged no other way', async () => {
    const { engine, context, run, leave, lines, decisions } = await judging();
    const outcome = engine.judge(context);
    run.end({ kind: 'warn', message: 'careful' });
    expect(await outcome).toBeUndefined();
    leave();
    expect(lines().at(-1)).toMatchObject({ msg: 'evaluator decided', decision: 'warn' });
    expect(decisions()).toEqual({ ...NOTHING, warn: 1 });
  });
});

it.each(['is removed', 'is removed and made anew'])(
  'a request whose namespace %s while it is judged is refused',
  async (how) => {
    const { engine, context, registry, run } = await judging();
    await registry.commit((draft) => createNamespace(draft, 'ops', {}));
    context.namespace = registry.current.namespace('ops');
    const outcome = engine.judge(context);
    await run.reached;
    await registry.commit((draft) => removeNamespace(draft, 'ops', true));
    if (how.endsWith('anew')) await registry.commit((draft) => createNamespace(draft, 'ops', {}));
    run.end({ kind: 'pass' });
    expect(await outcome).toMatchObject({ kind: 'error', status: 404, error: { message: 'namespace not found: ops' } });
  },
);

it.each(['is removed', 'is removed and made anew'])(
  'a request whose namespace %s while it is judged has no tools copied',
  async (how) => {
    const { engine, context, registry, run, runs } = await judging();
    await registry.commit((draft) => createNamespace(draft, 'ops', {}));
    context.namespace = registry.current.namespace('ops');
    const outcome = engine.judge(context);
    await run.reached;
    expect(runs[0]?.copyTool('mine', 'ops')).toBe(true);
    await registry.commit((draft) => removeNamespace(draft, 'ops', true));
    if (how.endsWith('anew')) await registry.commit((draft) => createNamespace(draft, 'ops', {}));
    const left = registry.current.namespace('ops');
    run.end({ kind: 'pass' });
    expect(await outcome).toMatchObject({ kind: 'error', status: 404 });
    expect(registry.current.namespace('ops')).toBe(left);
  },
);

it('a request that is taken back while the copies of its action wait to be stored has none copied', async () => {
  const store = new HeldStore();
  const { engine, context, registry, run, runs, leave, lines } = await judging({ store });
  const outcome = engine.judge(context);
  await run.reached;
  runs[0]?.copyTool('mine', 'copies');
  store.hold = true;
  const commit = vi.spyOn(registry, 'commit');
  const before = registry.commit((draft) => createNamespace(draft, 'before', {}));
  run.end({ kind: 'pass' });
  await expect.poll(() => commit.mock.calls.length).toBe(2);
  leave();
  expect(ends(await outcome)).toBe(true);
  store.hold = false;
  store.letThrough();
  await before;
  await expect.poll(lines).toMatchObject([CANCELLED]);
  expect(registry.current.namespace('copies')).toBeUndefined();
});

it('a run that did not begin is none: it has taken no time of an action', async () => {
  const { engine, context, run, decisions, failures, executions } = await judging();
  run.fail(new ActionNotStartedError('too many runs wait'));
  expect(await engine.judge(context)).toMatchObject({ kind: 'error' });
  expect([executions(), failures(), decisions()]).toEqual([0, { llm_failure: 0, action_failure: 1 }, NOTHING]);
});

it('a run whose copies cannot be kept has failed, its time counts once, and nothing of it has an effect', async () => {
  const { engine, context, registry, run, runs, lines, decisions, failures, executions } = await judging();
  const outcome = engine.judge(context);
  await run.reached;
  runs[0]?.copyTool('mine', 'copies');
  vi.spyOn(registry, 'commit').mockRejectedValueOnce(new Error('the disk is full'));
  run.end({ kind: 'set_metadata', key: 'a', value: 'b' });
  expect(await outcome).toMatchObject({ kind: 'error', error: { message: 'evaluator processor execution failed' } });
  expect([executions(), failures(), decisions()]).toEqual([1, { llm_failure: 0, action_failure: 1 }, NOTHING]);
  expect(lines()).toMatchObject([
    { level: 'warn', msg: 'evaluator failed', decision: 'action_failure', action_ms: 1.235 },
  ]);
  expect(context.metadata.get('a')).toBeUndefined();
});

it('the line of a decision says how long it took, and of the name of the tool the first 256 bytes', async () => {
  const { engine, context, run, lines } = await judging({ request: REQUEST.replace('mine', `${'x'.repeat(255)}é`) });
  run.end({ kind: 'pass' });
  const begunAt = performance.now();
  await engine.judge(context);
  const tookMs = performance.now() - begunAt;
  const [line] = lines();
  expect(line).toMatchObject({ msg: 'evaluator decided', tool: 'x'.repeat(255), action_ms: 1.235 });
  expect(line?.llm_ms).toBeGreaterThan(0);
  expect(line?.llm_ms).toBeLessThan(tookMs);
});

it('a request that is judged for longer than a call upstream may last can be taken back still', async () => {
  const { engine, context, run, leave } = await judging();
  const outcome = engine.judge(context);
  await run.reached;
  const judged = calls.find(() => true);
  // Both limits are passed, and it is looked at some more times.
  await expect.poll(() => calls.now() - (judged?.startedAt ?? Number.POSITIVE_INFINITY)).toBeGreaterThan(150);
  expect(calls.find(() => true)).toBe(judged);
  leave();
  expect(ends(await outcome)).toBe(true);
});

it('a text that an action has judged is judged for as long as the action waits for it', async () => {
  const signals: (AbortSignal | undefined)[] = [];
  const schema: CompiledSchema = {
    text: '{}',
    async validate(text, signal) {
      signals.push(signal);
      return text === '{}' ? undefined : 'wrong';
    },
  };
  const { engine, context, run, runs, leave } = await judging({ schema });
  llm.script('{}');
  const outcome = engine.judge(context);
  await run.reached;
  const { signal } = new AbortController();
  expect(await runs[0]?.verify('text', signal)).toBe('wrong');
  expect(signals).toHaveLength(2);
  expect(signals[1]).toBe(signal);
  // The answer of the LLM, for as long as the request is waited for.
  expect(signals[0]?.aborted).toBe(false);
  leave();
  await outcome;
  expect(signals[0]?.aborted).toBe(true);
});

it('what an action says is cut between two characters, in the log and in metadata', async () => {
  const { engine, context, run, runs, lines } = await judging();
  const outcome = engine.judge(context);
  await run.reached;
  const long = `${'x'.repeat(4095)}😀`;
  runs[0]?.log('info', long);
  runs[0]?.log('info', `${'x'.repeat(4093)}\ufffd.`);
  run.end({ kind: 'warn', message: long });
  await outcome;
  const cut = 'x'.repeat(4095);
  expect(lines().map(({ msg, message }) => message ?? msg)).toEqual([
    cut,
    `${'x'.repeat(4093)}\ufffd`,
    cut,
    'evaluator decided',
  ]);
  expect(context.metadata.get('service.evaluator.gate.warning')).toBe(cut);
});
