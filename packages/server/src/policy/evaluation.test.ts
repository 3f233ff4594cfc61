import { afterEach, beforeEach, expect, test } from 'vitest';
import { type ChatCompletions, type ScriptedCompletion, startChatCompletions } from '../../testing/chat-completions.ts';
import { DEFAULT_LOG_FILTER } from '../app/config/environment.ts';
import { exchangeParts } from '../http/exchange.fixture.ts';
import { InteractionStore } from '../inference/interaction-store.ts';
import { McpExchange } from '../mcp/exchange.ts';
import { Registry } from '../registry/registry.ts';
import { memoryLog } from '../registry/store/record-log.ts';
import { createLogger } from '../telemetry/log.ts';
import { ServiceMetrics } from '../telemetry/metrics/service-metrics.ts';
import { Evaluation } from './evaluation.ts';
import { LlmClient } from './llm/client.ts';
import { ConversationCache } from './llm/history.ts';
import { PromptToolCache } from './llm/prompt.ts';
import { ToolListCache } from './registry-view.ts';
import { ActionFailure } from './sandbox/action.ts';

let llm: ChatCompletions;
let client: LlmClient;
beforeEach(async () => {
  llm = await startChatCompletions();
  client = new LlmClient();
});
afterEach(async () => {
  await client.close();
  await llm.close();
});

/** Returns the log line of an evaluation with these LLM results, of which `{}` is valid. */
async function lineOf(responses: readonly ScriptedCompletion[], failure?: Error): Promise<Record<string, unknown>> {
  const lines: string[] = [];
  const registry = new Registry(memoryLog());
  await registry.load();
  const interactions = new InteractionStore(1);
  const evaluator = {
    definition: {
      name: 'gate',
      trigger: { method: 'tools/call', namespace: null },
      llm: { operation: 'classify' as const, prompt: 'Evaluate.', connection: 'model', result_schema: {} },
      processor: { path: 'gate.wasm' },
      on_error: 'block' as const,
    },
    connection: { name: 'model', model: 'm', url: llm.url },
    action: { checksum: '', glue: '', modules: [] },
    schema: { text: '{}', validate: async (text: string) => (text === '{}' ? undefined : 'wrong') },
  };
  const evaluation = new Evaluation(
    evaluator,
    { method: 'tools/call', namespace: 'default', toolName: 't', arguments: [], conversationId: undefined },
    new McpExchange(...exchangeParts()),
    {
      llm: client,
      actions: {
        async run() {
          if (failure) throw failure;
          return { response: { kind: 'pass' }, ignoredResponses: 0, durationMs: 1 };
        },
      },
      registry,
      interactions,
      metrics: new ServiceMetrics(),
      log: createLogger(DEFAULT_LOG_FILTER, (line) => lines.push(line)).target('service::evaluator'),
      toolLists: new ToolListCache(),
      promptTools: new PromptToolCache(),
      conversations: new ConversationCache(interactions),
    },
    new AbortController().signal,
  );
  llm.script(...responses);
  await evaluation.run();
  const [line, ...others] = lines.map((text): Record<string, unknown> => JSON.parse(text));
  expect(others).toEqual([]);
  return line ?? {};
}

test.each<[readonly ScriptedCompletion[], number | undefined, string | undefined]>([
  [['{}'], undefined, undefined],
  [['no', '{}'], 2, 'corrected'],
  [['no', 'still no'], 2, 'failed'],
  [['no', { status: 500 }], 2, 'failed'],
])('the log line of a decision has the correction of invalid results: %j', async (responses, llm_calls, validation) => {
  const line = await lineOf(responses);
  expect(line).toMatchObject({ msg: 'evaluator decided', decision: 'pass', tool: 't' });
  expect([line.llm_calls, line.validation]).toEqual([llm_calls, validation]);
  expect(JSON.stringify(line)).not.toMatch(/"(still )?no"|wrong/);
});

test('so has the log line of a failure', async () => {
  expect(await lineOf(['no', 'still no'], new ActionFailure('trap', 'trap'))).toMatchObject({
    msg: 'evaluator failed',
    decision: 'action_failure',
    llm_calls: 2,
    validation: 'failed',
  });
});
