import { Client, credentials, status } from '@grpc/grpc-js';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { CallUnderWay } from '../forwards/call-under-way.ts';
import { CallsUnderWay } from '../forwards/calls-under-way.ts';
import { parseMessage } from '../mcp/message.ts';
import type { ServiceEntry } from '../registry/entries.ts';
import { DEFAULT_NAMESPACE } from '../registry/names.ts';
import { Services } from '../registry/services.ts';
import { createLogger } from '../telemetry/log.ts';
import { type ReportedExecution, startCodeService } from '../testing/code-service.ts';
import { BridgedCalls } from './bridged-calls.ts';
import type { CodeStep, WatchedCode } from './code-steps.ts';
import { CodeTools } from './code-tools.ts';
import { WaitingClient } from './fixtures/waiting-client.ts';
import { loadProtocols } from './protocols.ts';

const URI = 'code-execution-engine://camel/java';

/** Begins a call of a code tool with an engine behind it, and keeps what is told of it. */
async function begin({ uri = URI, args = '{"code":"x","arguments":["a","b"]}', graceMs = 10_000 } = {}) {
  const engine = await startCodeService();
  onTestFinished(() => engine.close());
  const channel = new Client(`127.0.0.1:${engine.port}`, credentials.createInsecure());
  onTestFinished(() => channel.close());
  const calls = new CallsUnderWay<CallUnderWay>({ silenceMs: 60_000, totalMs: 60_000 });
  onTestFinished(() => calls.close());
  const watched: WatchedCode[] = [];
  const steps: CodeStep[] = [];
  const codeTools = new CodeTools({
    services: () => new Services(new Map([['runner', [entry(engine.port)]]])),
    protocols: loadProtocols(),
    channels: { to: () => channel },
    calls: new BridgedCalls(calls),
    settings: { maxRetries: 0, retryDelayMs: 1 },
    log: createLogger(SILENT, () => undefined).target('service::bridge'),
    watch: (call) => {
      watched.push(call);
      return (step) => steps.push(step);
    },
    graceMs,
  });
  const message = parseMessage(
    Buffer.from(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run","arguments":${args}}}`),
  );
  if (message.kind !== 'request') throw new Error('no request');
  const caller = {
    namespace: { name: 'default' },
    era: 'modern',
    headers: { 'x-request-id': 'abc' },
    session: undefined,
    user: undefined,
    capabilities: {},
    correlation: { conversationId: undefined, requestId: 'abc' },
  } as const;
  const answer = new WaitingClient();
  codeTools.call(caller, message, tool(uri))?.start(answer);
  return { engine, answer, steps, watched };
}

const SILENT = {
  service: 'off',
  'service::mcp': 'off',
  'service::mgmt': 'off',
  'service::inference': 'off',
  'service::evaluator': 'off',
  'service::bridge': 'off',
  'service::registry': 'off',
  'service::forward': 'off',
} as const;

function entry(port: number): ServiceEntry {
  return {
    name: 'runner',
    host: '127.0.0.1',
    port,
    serviceType: 'code-execution-engine',
    serviceSubType: 'camel',
    languageName: 'java',
    labels: {},
    id: undefined,
    source: 1,
    unknown: undefined,
  };
}

function tool(uri: string) {
  return {
    kind: 'tool',
    namespace: DEFAULT_NAMESPACE,
    key: 'run',
    name: 'run',
    source: 1,
    position: 0,
    labels: {},
    members: { uri, toolType: 'code' },
    discovered: undefined,
    definition: {},
    served: [],
  } as const;
}

describe('a call is told as started, then once as over', () => {
  const STARTED = { kind: 'started', service: { name: 'runner' }, argumentCount: 2 };
  const executionError = (message: string) => ({ kind: 'failed', category: 'EXECUTION_ERROR', message });

  test.each<[string, (execution: ReportedExecution) => void, object]>([
    [
      'completed, when the stream ends without an error reply',
      (execution) => {
        execution.reply({ outputType: 'STDOUT', status: 'COMPLETED', content: ['42'] });
        execution.end();
      },
      { kind: 'completed', content: ['42'] },
    ],
    ['completed, when the stream ends without any reply', (execution) => execution.end(), { kind: 'completed' }],
    [
      'failed, when an error reply was seen and the stream ends',
      (execution) => {
        execution.reply({ outputType: 'STDERR', status: 'FAILED', isError: true, content: ['bad'] });
        execution.end();
      },
      executionError('bad'),
    ],
    [
      'failed for the error reply, when the stream fails after it',
      (execution) => {
        execution.reply({ outputType: 'STDERR', status: 'FAILED', isError: true, content: ['bad'] });
        execution.fail(status.INTERNAL, 'broken');
      },
      executionError('bad'),
    ],
    [
      'failed, when an error reply comes after COMPLETED',
      (execution) => {
        execution.reply({ outputType: 'STDOUT', status: 'COMPLETED', content: ['42'] });
        execution.reply({ outputType: 'STDERR', status: 'COMPLETED', isError: true, content: ['after all'] });
        execution.end();
      },
      executionError('after all'),
    ],
    [
      'failed, when the stream fails after COMPLETED',
      (execution) => {
        execution.reply({ outputType: 'STDOUT', status: 'COMPLETED', content: ['42'] });
        execution.fail(status.INTERNAL, 'broken');
      },
      { kind: 'failed', category: 'SERVICE_UNAVAILABLE', message: 'broken' },
    ],
    [
      'failed, when the exit code is not 0',
      (execution) => {
        execution.reply({ outputType: 'COMPLETION', status: 'COMPLETED', exitCode: 3 });
        execution.end();
      },
      executionError('the execution ended as COMPLETED with exit code 3'),
    ],
  ])('%s', async (_what, report, over) => {
    const { engine, answer, steps, watched } = await begin();
    report(await engine.next());
    await answer.text;
    expect(steps).toMatchObject([STARTED, over]);
    expect(watched).toMatchObject([{ requestId: 'abc', target: { engine: 'camel', language: 'java' } }]);
  });

  test('failed, when it takes longer than its timeout and the grace', async () => {
    const { engine, answer, steps } = await begin({ args: '{"code":"x","timeout":1,"arguments":[1,2]}', graceMs: 200 });
    const execution = await engine.next();
    expect(JSON.parse(await answer.text).result).toMatchObject({ isError: true });
    await execution.cancelled;
    expect(steps).toMatchObject([STARTED, { kind: 'failed', category: 'SERVICE_UNAVAILABLE' }]);
    expect(steps[1]).toMatchObject({ message: expect.stringContaining('did not answer in time') });
  });

  test('failed, when the client has left', async () => {
    const { engine, answer, steps } = await begin();
    const execution = await engine.next();
    answer.leave();
    await execution.cancelled;
    expect(steps).toMatchObject([STARTED, { kind: 'failed', category: 'UNKNOWN', message: 'the client left' }]);
  });
});

test.each([
  ['INVALID_ARGUMENTS', { args: '{}' }],
  ['SERVICE_UNAVAILABLE', { uri: 'code-execution-engine://camel/cobol' }],
  ['TOOL_DEFINITION_ERROR', { uri: 'code-execution-engine://camel' }],
])('a call that fails as %s before it began is told so alone', async (category, given) => {
  const { answer, steps, engine } = await begin(given);
  await answer.text;
  expect(steps).toMatchObject([{ kind: 'failed', category }]);
  expect(engine.executions).toEqual([]);
});
