import { ChunkBuffer } from '@sluice/protocol/chunk-buffer';
import { parseMessage } from '@sluice/protocol/mcp/message';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type ChatCompletions, startChatCompletions } from '../../testing/chat-completions.ts';
import { DEFAULT_LOG_FILTER } from '../app/config/environment.ts';
import { exchangeParts } from '../http/exchange.fixture.ts';
import { BusyError } from '../http/fair-queue.ts';
import { InteractionStore } from '../inference/interaction-store.ts';
import { ClientSink } from '../mcp/client-sink.ts';
import { McpExchange, type McpOutcome } from '../mcp/exchange.ts';
import { NullResponse } from '../mcp/listener.ts';
import { ResponseWriter } from '../mcp/response.ts';
import { commit } from '../registry/fixtures/commit.ts';
import { removeNamespace } from '../registry/fixtures/operations.ts';
import { PausableStore } from '../registry/fixtures/pausable-store.ts';
import { createEntry } from '../registry/operations.ts';
import { createNamespace } from '../registry/operations-topology.ts';
import { Registry } from '../registry/registry.ts';
import { memoryLog, type RecordLog } from '../registry/store/record-log.ts';
import { createLogger } from '../telemetry/log.ts';
import { ServiceMetrics } from '../telemetry/metrics/service-metrics.ts';
import { ToolCallEvents } from '../telemetry/tool-calls/events.ts';
import { NO_CLIENT } from '../upstreams/client-facts.ts';
import { InFlightCalls } from '../upstreams/in-flight-calls.ts';
import { EvaluatorEngine } from './engine.ts';
import { EvaluatorSet } from './evaluator-set.ts';
import { LlmClient } from './llm/client.ts';
import type { CompiledSchema } from './llm/result-schema.ts';
import { ActionNotStartedError, type ActionResponse, type ActionRun, type HostFunctions } from './sandbox/action.ts';

const TOOL = { name: 'mine', description: 'd', uri: 'http://own.test/', toolType: 'own', input_schema: {} };
const REQUEST = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mine"}}';

/** Step of an evaluation that the test completes. */
class ControlledStep<T> {
  readonly #reached = Promise.withResolvers<void>();
  readonly #result = Promise.withResolvers<T>();

  /** Resolves when the evaluation has reached the step. */
  get reached(): Promise<void> {
    return this.#reached.promise;
  }

  wait(): Promise<T> {
    this.#reached.resolve();
    return this.#result.promise;
  }

  end(value: T): void {
    this.#result.resolve(value);
  }

  fail(error: Error): void {
    this.#result.promise.catch(() => undefined);
    this.#result.reject(error);
  }
}

let llm: ChatCompletions;
let client: LlmClient;
let calls: InFlightCalls;
beforeEach(async () => {
  llm = await startChatCompletions();
  client = new LlmClient();
  calls = new InFlightCalls({ idleMs: 40, totalMs: 80 });
});
afterEach(async () => {
  calls.close();
  await client.close();
  await llm.close();
});

interface SetupOptions {
  readonly schema?: CompiledSchema;
  readonly store?: RecordLog;
  readonly request?: string;
  readonly onError?: 'continue' | 'block';
}

/** An engine whose action is run by the test, and a request of a modern client. */
async function setUp({ schema, store = memoryLog(), request = REQUEST, onError = 'block' }: SetupOptions = {}) {
  const registry = new Registry(store);
  await registry.load();
  await commit(registry, (draft) => createEntry(draft, 'tool', TOOL));
  const lines: string[] = [];
  const logger = createLogger(DEFAULT_LOG_FILTER, (line) => lines.push(line));
  const metrics = new ServiceMetrics();
  const run = new ControlledStep<ActionResponse>();
  const runs: HostFunctions[] = [];
  const signals: (AbortSignal | undefined)[] = [];
  const evaluator = {
    definition: {
      name: 'gate',
      trigger: { method: 'tools/call', namespace: null },
      llm: { operation: 'classify' as const, prompt: 'Evaluate.', connection: 'model', result_schema: null },
      processor: { path: 'gate.wasm' },
      on_error: onError,
    },
    connection: { name: 'model', model: 'm', url: llm.url },
    action: { checksum: '', glue: '', modules: [] },
    schema,
  };
  const engine = new EvaluatorEngine({
    evaluators: { current: new EvaluatorSet(1, [evaluator]) },
    bindings: { get: () => undefined },
    llm: client,
    actions: {
      async run(_action, _context, responses, signal): Promise<ActionRun> {
        runs.push(responses);
        signals.push(signal);
        return { response: await run.wait(), ignoredResponses: 0, durationMs: 1.23456 };
      },
    },
    registry,
    interactions: new InteractionStore(1),
    calls,
    maxMembers: 10_000,
    toolCalls: new ToolCallEvents(logger),
    metrics,
    log: logger.target('service::evaluator'),
  });
  const closeListeners: (() => void)[] = [];
  const response = { on: (_event: string, listener: () => void) => closeListeners.push(listener) };
  const context = new McpExchange(...exchangeParts({}, response));
  const message = parseMessage(ChunkBuffer.of(Buffer.from(request)));
  if (message.kind !== 'request') throw new Error('not a request');
  context.message = message;
  context.era = 'modern';
  context.namespace = registry.current.namespace('default');
  return {
    engine,
    context,
    registry,
    run,
    runs,
    signals,
    disconnect: () => {
      for (const listener of closeListeners) listener();
    },
    lines: () => lines.map((line): Record<string, unknown> => JSON.parse(line)),
    decisions: () => metrics.snapshot().evaluators.gate?.decisions,
    executions: () => metrics.snapshot().evaluators.gate?.wasm.executions,
    failures: () => metrics.snapshot().evaluators.gate?.failures,
  };
}

/** Whether the outcome ends the response, as for a canceled request. */
function isCanceled(outcome: McpOutcome | undefined): boolean {
  if (outcome?.kind !== 'deferred') return false;
  const sink = new ClientSink(new ResponseWriter(new NullResponse(), [], '1'), NO_CLIENT);
  const complete = vi.spyOn(sink, 'complete');
  outcome.start(sink);
  return complete.mock.calls[0]?.[0].kind === 'canceled';
}

/** The latest failure. */
const FAILED = { at: expect.any(String), message: expect.any(String) };
const NOTHING = { pass: 0, block: 0, reject_malformed: 0, warn: 0, filter_tools: 0, set_metadata: 0 };
/** Outcome of a request for whose evaluation there is no room. */
const busy = (retryAfterMs: number) => ({
  kind: 'error',
  error: {
    code: -32000,
    message: 'evaluator busy',
    data: JSON.stringify({ kind: 'busy', retry_after_ms: retryAfterMs }),
  },
});
const CANCELED = { level: 'info', msg: 'evaluation canceled', decision: 'cancelled' };

describe('a request whose client disconnects', () => {
  it('while its action runs ends at once, and the response of the action is ignored', async () => {
    const { engine, context, registry, run, runs, signals, disconnect, lines, decisions, failures } = await setUp();
    const outcome = engine.evaluate(context);
    await run.reached;
    runs[0]?.copyTool('mine', 'copies');
    disconnect();
    expect(isCanceled(await outcome)).toBe(true);
    expect(calls.size).toBe(0);
    // If it had not started, it would not start anymore.
    expect(signals.map((signal) => signal?.aborted)).toEqual([true]);
    run.end({ kind: 'set_metadata', key: 'a', value: 'b' });
    await expect.poll(lines).toMatchObject([CANCELED]);
    expect(context.metadata.get('a')).toBeUndefined();
    expect(registry.current.namespace('copies')).toBeUndefined();
    expect([decisions(), failures()]).toEqual([
      NOTHING,
      { llm_failure: 0, action_failure: 0, busy: 0, consecutive: 0 },
    ]);
  });

  it('while the LLM result is validated does not run its action', async () => {
    const validation = new ControlledStep<string | undefined>();
    const { engine, context, runs, disconnect, lines } = await setUp({
      schema: { text: '{}', validate: () => validation.wait() },
    });
    const outcome = engine.evaluate(context);
    await validation.reached;
    disconnect();
    expect(isCanceled(await outcome)).toBe(true);
    validation.end(undefined);
    await expect.poll(lines).toMatchObject([CANCELED]);
    expect(runs).toEqual([]);
  });

  it('after its evaluation keeps its verdict', async () => {
    const { engine, context, run, disconnect, lines, decisions } = await setUp();
    const outcome = engine.evaluate(context);
    run.end({ kind: 'warn', message: 'careful' });
    expect(await outcome).toBeUndefined();
    disconnect();
    expect(lines().at(-1)).toMatchObject({ msg: 'evaluator decided', decision: 'warn' });
    expect(decisions()).toEqual({ ...NOTHING, warn: 1 });
  });
});

it.each(['is deleted', 'is deleted and recreated'])(
  'a request whose namespace %s during the evaluation is rejected',
  async (how) => {
    const { engine, context, registry, run } = await setUp();
    await commit(registry, (draft) => createNamespace(draft, 'ops', {}));
    context.namespace = registry.current.namespace('ops');
    const outcome = engine.evaluate(context);
    await run.reached;
    await commit(registry, (draft) => removeNamespace(draft, 'ops', true));
    if (how.endsWith('recreated')) await commit(registry, (draft) => createNamespace(draft, 'ops', {}));
    run.end({ kind: 'pass' });
    expect(await outcome).toMatchObject({ kind: 'error', status: 404, error: { message: 'namespace not found: ops' } });
  },
);

it.each(['is deleted', 'is deleted and recreated'])(
  'a request whose namespace %s during the evaluation copies no tools',
  async (how) => {
    const { engine, context, registry, run, runs } = await setUp();
    await commit(registry, (draft) => createNamespace(draft, 'ops', {}));
    context.namespace = registry.current.namespace('ops');
    const outcome = engine.evaluate(context);
    await run.reached;
    expect(runs[0]?.copyTool('mine', 'ops')).toBe(true);
    await commit(registry, (draft) => removeNamespace(draft, 'ops', true));
    if (how.endsWith('recreated')) await commit(registry, (draft) => createNamespace(draft, 'ops', {}));
    const left = registry.current.namespace('ops');
    run.end({ kind: 'pass' });
    expect(await outcome).toMatchObject({ kind: 'error', status: 404 });
    expect(registry.current.namespace('ops')).toBe(left);
  },
);

it('a request that is canceled while its copies wait for the store copies no tools', async () => {
  const store = new PausableStore();
  const { engine, context, registry, run, runs, disconnect, lines } = await setUp({ store });
  const outcome = engine.evaluate(context);
  await run.reached;
  runs[0]?.copyTool('mine', 'copies');
  store.hold = true;
  const commits = vi.spyOn(registry, 'commit');
  const before = commit(registry, (draft) => createNamespace(draft, 'before', {}));
  run.end({ kind: 'pass' });
  await expect.poll(() => commits.mock.calls.length).toBe(2);
  disconnect();
  expect(isCanceled(await outcome)).toBe(true);
  store.hold = false;
  store.commitAll();
  await before;
  await expect.poll(lines).toMatchObject([CANCELED]);
  expect(registry.current.namespace('copies')).toBeUndefined();
});

it.each([
  ['has no room', new BusyError(2_500), 2_500],
  ['did not start', new ActionNotStartedError('service is shutting down'), 1_000],
])(
  'a run that %s is no verdict: the request is rejected, and the run is not counted',
  async (_, error, retryAfterMs) => {
    const { engine, context, run, decisions, failures, executions, lines } = await setUp({ onError: 'continue' });
    run.fail(error);
    expect(await engine.evaluate(context)).toEqual(busy(retryAfterMs));
    expect([executions(), failures(), decisions()]).toEqual([
      0,
      { llm_failure: 0, action_failure: 0, busy: 1, consecutive: 0, last: FAILED },
      NOTHING,
    ]);
    expect(lines()).toMatchObject([{ level: 'warn', msg: 'evaluator busy', decision: 'busy' }]);
  },
);

it('a text for whose validation there is no room is no verdict, neither of the LLM nor of an action', async () => {
  let validations = 0;
  const schema: CompiledSchema = {
    text: '{}',
    async validate() {
      if (++validations !== 2) throw new BusyError(3_000);
      return undefined;
    },
  };
  const { engine, context, run, runs, executions } = await setUp({ schema, onError: 'continue' });
  expect(await engine.evaluate(context)).toEqual(busy(3_000));
  expect(executions()).toBe(0);
  const outcome = engine.evaluate(context);
  await run.reached;
  expect(await runs[0]?.verify('text', new AbortController().signal)).toBe('validation failed: there is no room');
  run.end({ kind: 'pass' });
  expect(await outcome).toEqual(busy(3_000));
});

it('a run whose copies cannot be stored has failed: its time counts once, and its response is ignored', async () => {
  const { engine, context, registry, run, runs, lines, decisions, failures, executions } = await setUp();
  const outcome = engine.evaluate(context);
  await run.reached;
  runs[0]?.copyTool('mine', 'copies');
  vi.spyOn(registry, 'commit').mockRejectedValueOnce(new Error('the disk is full'));
  run.end({ kind: 'set_metadata', key: 'a', value: 'b' });
  expect(await outcome).toMatchObject({ kind: 'error', error: { message: 'evaluator processor execution failed' } });
  expect([executions(), failures(), decisions()]).toEqual([
    1,
    { llm_failure: 0, action_failure: 1, busy: 0, consecutive: 1, last: FAILED },
    NOTHING,
  ]);
  expect(lines()).toMatchObject([
    { level: 'warn', msg: 'evaluator failed', decision: 'action_failure', action_ms: 1.235 },
  ]);
  expect(context.metadata.get('a')).toBeUndefined();
});

it('the log line of a decision has the duration and at most 256 bytes of the tool name', async () => {
  const { engine, context, run, lines } = await setUp({ request: REQUEST.replace('mine', `${'x'.repeat(255)}é`) });
  run.end({ kind: 'pass' });
  const begunAt = performance.now();
  await engine.evaluate(context);
  const tookMs = performance.now() - begunAt;
  const [line] = lines();
  expect(line).toMatchObject({ msg: 'evaluator decided', tool: 'x'.repeat(255), action_ms: 1.235 });
  expect(line?.llm_ms).toBeGreaterThan(0);
  expect(line?.llm_ms).toBeLessThan(tookMs);
});

it('an evaluation that takes longer than the limits of upstream calls can still be canceled', async () => {
  const { engine, context, run, disconnect } = await setUp();
  const outcome = engine.evaluate(context);
  await run.reached;
  const evaluated = calls.find(() => true);
  // Both limits have passed, and the timer has fired some more times.
  await expect.poll(() => performance.now() - (evaluated?.startedAt ?? Number.POSITIVE_INFINITY)).toBeGreaterThan(150);
  expect(calls.find(() => true)).toBe(evaluated);
  disconnect();
  expect(isCanceled(await outcome)).toBe(true);
});

it('a text that an action verifies is validated with the signal of the action', async () => {
  const signals: (AbortSignal | undefined)[] = [];
  const schema: CompiledSchema = {
    text: '{}',
    async validate(text, signal) {
      signals.push(signal);
      return text === '{}' ? undefined : 'wrong';
    },
  };
  const { engine, context, run, runs, disconnect } = await setUp({ schema });
  llm.script('{}');
  const outcome = engine.evaluate(context);
  await run.reached;
  const { signal } = new AbortController();
  expect(await runs[0]?.verify('text', signal)).toBe('wrong');
  expect(signals).toHaveLength(2);
  expect(signals[1]).toBe(signal);
  // The LLM result, with the signal of the request.
  expect(signals[0]?.aborted).toBe(false);
  disconnect();
  await outcome;
  expect(signals[0]?.aborted).toBe(true);
});

it('texts of an action are truncated between two characters, in the log and in metadata', async () => {
  const { engine, context, run, runs, lines } = await setUp();
  const outcome = engine.evaluate(context);
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

it('the metadata of a request has its method and namespace, and what an action sets', async () => {
  const { engine, context, run } = await setUp();
  const outcome = engine.evaluate(context);
  await run.reached;
  run.end({ kind: 'set_metadata', key: 'a', value: 'b' });
  await outcome;
  expect(Object.fromEntries(context.metadata)).toEqual({
    'mcp.method': 'tools/call',
    'service.namespace': 'default',
    a: 'b',
  });
});
