import { failingReason } from '@sluice/contract';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import {
  type ChatCompletions,
  type CompletionScript,
  type ReceivedCompletion,
  startChatCompletions,
} from '../../testing/chat-completions.ts';
import { DEFAULT_LOG_FILTER } from '../app/config/environment.ts';
import { CODINGS } from '../http/client/codings.fixture.ts';
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
import { ResultSchemas } from './llm/result-schema.ts';
import { ToolListCache } from './registry-view.ts';

/** In no log line, message or reason. */
const MARKS = { model: 'marked-model', key: 'marked-key', url: 'marked-path', text: 'marked text' };

const schemas = new ResultSchemas(30_000);
afterAll(() => schemas.close());

let llm: ChatCompletions;
let run: () => Promise<void>;
let client: LlmClient;
let metrics: ServiceMetrics;
let lines: string[];
/** What the action got. */
let results: string[];
let registry: Registry;
beforeAll(async () => {
  registry = new Registry(memoryLog());
  await registry.load();
});
beforeEach(async () => {
  llm = await startChatCompletions();
  lines = [];
  results = [];
  metrics = new ServiceMetrics();
  const log = createLogger(DEFAULT_LOG_FILTER, (line) => lines.push(line)).target('service::evaluator');
  client = new LlmClient({ log, timeoutMs: 30_000 });
  const schema = await schemas.compile({ enum: ['SAFE', 'UNSAFE'] });
  const interactions = new InteractionStore(1);
  const evaluator = {
    definition: {
      name: 'gate',
      trigger: { method: 'tools/call', namespace: null },
      llm: { operation: 'classify' as const, prompt: 'Evaluate.', connection: 'model', result_schema: {} },
      processor: { path: 'gate.wasm' },
      on_error: 'continue' as const,
    },
    connection: { name: 'model', model: MARKS.model, url: `${llm.url}/${MARKS.url}`, apiKey: MARKS.key },
    action: { checksum: '', glue: '', modules: [] },
    schema,
  };
  const options = {
    llm: client,
    actions: {
      async run(_action: unknown, { llmResult }: { readonly llmResult: string }) {
        results.push(llmResult);
        return { response: { kind: 'pass' as const }, ignoredResponses: 0, durationMs: 1 };
      },
      close: async () => {},
    },
    registry,
    interactions,
    metrics,
    log,
    toolLists: new ToolListCache(),
    promptTools: new PromptToolCache(),
    conversations: new ConversationCache(interactions),
  };
  run = async () => {
    const request = { method: 'tools/call', namespace: 'default', arguments: [], conversationId: undefined };
    const input = new McpExchange(...exchangeParts());
    await new Evaluation(
      evaluator,
      { ...request, toolName: undefined },
      input,
      options,
      new AbortController().signal,
    ).run();
  };
});
afterEach(async () => {
  for (const mark of Object.values(MARKS))
    expect(`${lines.join()} ${JSON.stringify(metrics.snapshot())}`).not.toContain(mark);
  await client.close();
  await llm.close();
});

const reason = () => {
  const counts = metrics.snapshot().evaluators.gate;
  return counts && failingReason(counts);
};
const logged = (): Record<string, unknown>[] => lines.map((line) => JSON.parse(line));
const membersOf = ({ text }: ReceivedCompletion) => Object.keys(JSON.parse(text));
const error = (status: number, body: unknown): CompletionScript => ({ status, body: JSON.stringify(body) });
const SAFE = '"SAFE"';
const ALL = ['model', 'messages', 'temperature', 'stream'];

/** Refusals of a member: the response, what is left out, and what the log says. */
const REFUSALS: readonly [string, CompletionScript, readonly string[], object][] = [
  [
    'of OpenAI',
    error(400, {
      error: {
        message: `Unsupported value: 'temperature' does not support 0 with ${MARKS.model}. ${MARKS.text}`,
        type: 'invalid_request_error',
        param: 'temperature',
        code: 'unsupported_value',
      },
    }),
    ['temperature'],
    { status: 400, param: 'temperature', code: 'unsupported_value' },
  ],
  [
    'of Azure',
    error(400, {
      error: {
        message: "Unsupported parameter: 'temperature' is not supported with this model.",
        type: 'invalid_request_error',
        param: null,
        code: null,
      },
    }),
    ['temperature'],
    { status: 400, code: 'invalid_request_error' },
  ],
  [
    'of Anthropic',
    error(400, {
      type: 'error',
      error: { type: 'invalid_request_error', message: '`temperature` is deprecated for this model.' },
    }),
    ['temperature'],
    { status: 400, code: 'invalid_request_error' },
  ],
  [
    'of Mistral',
    error(422, {
      object: 'error',
      message: {
        detail: [{ type: 'extra_forbidden', loc: ['body', 'stream'], msg: 'Extra inputs are not permitted' }],
      },
      type: 'invalid_request_error',
      param: null,
      code: null,
    }),
    ['stream'],
    { status: 422, param: 'stream' },
  ],
  [
    'of FastAPI',
    error(422, {
      detail: ['temperature', 'stream'].map((name) => ({ loc: ['body', name], msg: 'extra fields not permitted' })),
    }),
    ['temperature', 'stream'],
    { status: 422, param: 'temperature' },
  ],
  [
    'of Google',
    error(400, [
      {
        error: {
          code: 400,
          message: 'Invalid JSON payload received.',
          status: 'INVALID_ARGUMENT',
          details: [
            { fieldViolations: [{ field: 'generation_config.temperature', description: 'Cannot find field.' }] },
          ],
        },
      },
    ]),
    ['temperature'],
    { status: 400, param: 'generation_config.temperature', code: '400' },
  ],
  [
    'of LiteLLM',
    error(400, {
      error: {
        message: `litellm.UnsupportedParamsError: openai does not support parameters: {'temperature': 0}, for model=${MARKS.model}`,
        type: 'None',
        param: 'None',
        code: '400',
      },
    }),
    ['temperature'],
    { status: 400, code: '400' },
  ],
  ['in plain text', { status: 400, body: 'Unsupported: temperature' }, ['temperature'], { status: 400 }],
  ['in a text', error(400, 'temperature must be 1'), ['temperature'], { status: 400 }],
  ['in one member', error(400, { error: 'unknown field: stream' }), ['stream'], { status: 400 }],
];

describe('a refusal of a member', () => {
  test.for(REFUSALS)('%s is repeated once without it, and remembered', async ([, refusal, omitted, fields]) => {
    llm.script(refusal, SAFE, SAFE, SAFE);
    for (let calls = 0; calls < 3; calls++) await run();
    const rest = ALL.filter((name) => !omitted.includes(name));
    expect(llm.requests.map(membersOf)).toEqual([ALL, rest, rest, rest]);
    expect(results).toEqual([SAFE, SAFE, SAFE]);
    const [first, ...others] = logged();
    expect(first).toMatchObject({ level: 'warn', connection: 'model', omitted, ...fields });
    expect(others.map(({ msg }) => msg)).toEqual(Array.from({ length: 3 }, () => 'evaluator decided'));
    expect(reason()).toBeUndefined();
  });

  test('that does not help is repeated for each call, and is the reason', async () => {
    const refusal = error(400, { error: { param: 'temperature', code: 'unsupported_value', message: MARKS.text } });
    llm.defaultResult = refusal;
    await run();
    await run();
    expect(llm.requests.map(membersOf)).toEqual([
      ALL,
      ['model', 'messages', 'stream'],
      ALL,
      ['model', 'messages', 'stream'],
    ]);
    expect(reason()).toBe('status, HTTP 400, param temperature, code unsupported_value');
    expect(logged()).toMatchObject(
      [1, 2].map(() => ({ msg: 'evaluator failed', fault: 'status', status: 400, param: 'temperature' })),
    );
  });

  test('of one member after another is learned in two calls', async () => {
    const refusal = (param: string) => error(422, { detail: [{ loc: ['body', param], msg: 'no' }] });
    llm.script(refusal('temperature'), refusal('stream'), refusal('stream'), SAFE, SAFE);
    for (let calls = 0; calls < 3; calls++) await run();
    expect(llm.requests.map(membersOf)).toEqual([
      ALL,
      ['model', 'messages', 'stream'],
      ['model', 'messages', 'stream'],
      ['model', 'messages'],
      ['model', 'messages'],
    ]);
    expect(results).toEqual([SAFE, SAFE]);
  });
});

/** Failures that are not repeated, and their reasons. */
const FAILURES: readonly [string, CompletionScript, string][] = [
  [
    'a 400 that names another member',
    error(400, { error: { param: 'messages', message: "'temperature' too" } }),
    'status, HTTP 400, param messages',
  ],
  [
    'a 400 about something else',
    error(400, { error: { message: `maximum context length of ${MARKS.model}`, code: 'context_length_exceeded' } }),
    'status, HTTP 400, code context_length_exceeded',
  ],
  ['a 400 that speaks of a stream', error(400, { error: { message: 'the stream was closed' } }), 'status, HTTP 400'],
  ['a 400 without JSON', { status: 400, body: MARKS.text }, 'status, HTTP 400'],
  ['a 400 without a body', { status: 400, body: '' }, 'status, HTTP 400'],
  [
    'a 400 whose kind is the model',
    error(400, { error: { code: MARKS.model, param: `${MARKS.key}s` } }),
    'status, HTTP 400',
  ],
  ['a 400 whose kind is a text', error(400, { error: { code: MARKS.text, type: 'x'.repeat(65) } }), 'status, HTTP 400'],
  [
    'a 400 that is too large',
    error(400, { padding: 'x'.repeat(100_000), error: { param: 'temperature' } }),
    'status, HTTP 400',
  ],
  [
    'a 401',
    error(401, { error: { message: MARKS.key, code: 'invalid_api_key' } }),
    'status, HTTP 401, code invalid_api_key',
  ],
  ['a 403 that names a member', error(403, { error: { param: 'temperature' } }), 'status, HTTP 403, param temperature'],
  [
    'a 404',
    error(404, { error: { message: MARKS.model, code: 'model_not_found' } }),
    'status, HTTP 404, code model_not_found',
  ],
  ['a 429', error(429, { error: { type: 'rate_limit_error' } }), 'status, HTTP 429, code rate_limit_error'],
  ['a 500', { status: 500, body: MARKS.text }, 'status, HTTP 500'],
  ['a redirect', { status: 307, body: '', headers: { location: '/x' } }, 'status, HTTP 307'],
  [
    'a refusal to respond',
    { body: JSON.stringify({ choices: [{ message: { content: null, refusal: MARKS.text } }] }) },
    'refusal',
  ],
  ['no content', { content: null }, 'no-content'],
  ['parts without text', { content: [{ type: 'image_url' }, { type: 'thinking', thinking: [] }] }, 'no-content'],
  ['an empty list of parts', { content: [] }, 'no-content'],
  ['the envelope of Ollama', { body: JSON.stringify({ message: { content: SAFE }, done: true }) }, 'no-content'],
  ['the envelope of Messages', { body: JSON.stringify({ content: [{ type: 'text', text: SAFE }] }) }, 'no-content'],
  ['an error with 200', error(200, { error: { message: MARKS.text } }), 'no-content'],
  ['an event stream', { body: 'data: {"choices":[]}\n\n' }, 'invalid'],
  ['no JSON', { body: `<html>${MARKS.text}` }, 'invalid'],
  ['JSON that is cut off', { body: '{"choices":[{"message":{"content":"SA' }, 'invalid'],
  ['an unknown content coding', { content: SAFE, headers: { 'content-encoding': 'rot13' } }, 'invalid'],
  ['no complete response', { content: SAFE, stopsIn: 'body', hangsUp: true }, 'network'],
];

test.for(FAILURES)('%s fails with one call and its reason', async ([, script, expected]) => {
  llm.defaultResult = script;
  await run();
  expect([llm.requests.length, results.length, reason()]).toEqual([1, 0, expected]);
  expect(logged()).toMatchObject([{ level: 'warn', msg: 'evaluator failed', fault: expected.split(',')[0] }]);
});

/** Answers with a result for the action, which is valid or not. */
const ANSWERS: readonly [string, CompletionScript, string, boolean][] = [
  ['a text', { content: SAFE }, SAFE, true],
  [
    'parts',
    {
      content: [
        { type: 'text', text: '"SA' },
        { type: 'text', text: 'FE"' },
      ],
    },
    SAFE,
    true,
  ],
  [
    'thinking among parts',
    {
      content: [
        { type: 'thinking', thinking: [] },
        { type: 'text', text: SAFE },
      ],
    },
    SAFE,
    true,
  ],
  ['a fence', { content: `\`\`\`json\n${SAFE}\n\`\`\`` }, `\`\`\`json\n${SAFE}\n\`\`\``, true],
  [
    'thinking',
    { content: `<think>\nHm "</tool>"\n</think>\n\n${SAFE}` },
    `<think>\nHm "</tool>"\n</think>\n\n${SAFE}`,
    true,
  ],
  [
    'thinking before a fence',
    { content: `\n<think></think>\`\`\`\n${SAFE}\n\`\`\`` },
    `\n<think></think>\`\`\`\n${SAFE}\n\`\`\``,
    true,
  ],
  ['thinking that is cut off', { content: `<think>Hm ${SAFE}` }, `<think>Hm ${SAFE}`, false],
  ['thinking after the answer', { content: `${SAFE}<think></think>` }, `${SAFE}<think></think>`, false],
  ['a text that is cut off', { content: '"SA' }, '"SA', false],
  ['an empty text', { content: '' }, '', false],
  ...CODINGS.map(({ name, lines: codings, encode }): [string, CompletionScript, string, boolean] => {
    const body = JSON.stringify({ choices: [{ message: { content: SAFE } }] });
    return [name, { body: encode(Buffer.from(body)), headers: { 'content-encoding': codings.join(',') } }, SAFE, true];
  }),
];

test.for(ANSWERS)('%s is passed to the action as it is', async ([, script, text, isValid]) => {
  llm.defaultResult = script;
  await run();
  expect(results).toEqual([text]);
  // An invalid result costs a correction.
  expect(llm.requests.length).toBe(isValid ? 1 : 2);
  expect(logged()).toMatchObject([{ msg: 'evaluator decided' }]);
  expect(reason()).toBeUndefined();
});

test('a decision, and a failure after many decisions, mean that the evaluator works', async () => {
  llm.script({ status: 500 }, { status: 500 }, SAFE, SAFE, { status: 500 }, { status: 500 }, { status: 500 }, SAFE);
  const reasons: (string | undefined)[] = [];
  for (let calls = 0; calls < 8; calls++) {
    await run();
    reasons.push(reason());
  }
  const failing = 'status, HTTP 500';
  expect(reasons).toEqual([failing, failing, undefined, undefined, undefined, undefined, failing, undefined]);
});
