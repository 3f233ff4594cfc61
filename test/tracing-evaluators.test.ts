import { beforeAll, expect, it, vi } from 'vitest';
import { type OtlpReceiver, startOtlpReceiver } from '../packages/server/testing/otlp-receiver.ts';
import {
  type EvaluatedService,
  evaluator,
  MODEL,
  ownTool,
  startEvaluatedService,
} from './fixtures/evaluated/evaluated-service.ts';
import { modernClient } from './fixtures/raw-client.ts';

// What a trace shows of the evaluation of a request.

let evaluated: EvaluatedService;
let receiver: OtlpReceiver;
beforeAll(async () => {
  receiver = await startOtlpReceiver();
  // Read by the exporter itself.
  for (const [name, value] of Object.entries(receiver.env)) vi.stubEnv(name, value);
  evaluated = await startEvaluatedService({ ...receiver.env });
  vi.unstubAllEnvs();
  await evaluated.service.register('tools', ownTool('own'));
  return async () => {
    await evaluated.close();
    await receiver.close();
  };
}, 120_000);

/** Calls the tool as `ann` in a new trace; returns the server span, and the other one of this name. */
async function trace(name: string) {
  const traceId = Array.from({ length: 32 }, () => Math.floor(Math.random() * 16).toString(16)).join('');
  await modernClient(evaluated.service.url()).call('tools/call', '{"name":"own"}', {
    traceparent: `00-${traceId}-00f067aa0ba902b7-01`,
    'x-forwarded-user': 'ann',
  });
  const find = (wanted: string) => receiver.span((span) => span.traceId === traceId && span.name === wanted);
  return { server: await find('tools/call own'), span: await find(name) };
}

it('LLM call and action are spans below that of the request, which has the user and the outcome', async () => {
  await evaluated.apply(evaluator('gate', { llmOutput: 'block:no' }));
  const { server, span: action } = await trace('action gate');
  expect(server.attributes).toMatchObject({ 'enduser.id': 'ann', 'sluice.outcome': 'blocked' });
  expect(action).toMatchObject({ parentSpanId: server.spanId, attributes: { 'sluice.evaluator': 'gate' } });
  expect(action.attributes).not.toHaveProperty('error.type');
  const { server: next, span: chat } = await trace('chat');
  expect(chat).toMatchObject({
    parentSpanId: next.spanId,
    attributes: { 'sluice.evaluator': 'gate', 'sluice.llm.connection': 'judge', 'gen_ai.operation.name': 'chat' },
  });
});

it.each([
  ['chat', { connection: 'nobody', on_error: 'block' }, 'network'],
  ['action gate', { llmOutput: 'trap', on_error: 'block' }, expect.any(String)],
] as const)('a failure of %s is that of its span', async (name, parts, errorType) => {
  await evaluated.apply(evaluator('gate', parts));
  const { span } = await trace(name);
  expect(span.attributes).toMatchObject({ 'error.type': errorType });
});

it('no span has the model or the URL of a connection', () => {
  const text = JSON.stringify(receiver.spans);
  expect(text).not.toContain(MODEL);
  expect(text).not.toContain(new URL(evaluated.llm.url).host);
});
