import { status } from '@grpc/grpc-js';
import { describe, expect, test, vi } from 'vitest';
import type { ReportedExecution } from '../../../testing/code-service.ts';
import { eventsOf, failed, reading, result, run, setUp } from './fixtures/code-tests.ts';
import { startedAndFailed } from './fixtures/operation-tests.ts';
import type { CodeExecutionReply } from './generated/codeexecution/CodeExecutionReply.ts';

const UUID = expect.stringMatching(/^[0-9a-f-]{36}$/);
const NOT_0 = 'the execution ended as COMPLETED with exit code 3';

describe('a call', () => {
  test('executes the code in the service of engine and language, and returns its output', async () => {
    const parts = await setUp();
    const args = '{"code":"MQ==","arguments":["a"],"environment":{"E":"v"},"timeout":5000}';
    const responded = await run(
      parts,
      (execution) => {
        execution.reply({ outputType: 'STATUS', status: 'RUNNING' });
        execution.reply({ outputType: 'STDOUT', status: 'RUNNING', content: ['out'] });
        execution.reply({ outputType: 'STDERR', status: 'RUNNING', content: ['err'] });
        execution.reply({ outputType: 'COMPLETION', status: 'COMPLETED' });
        execution.end();
      },
      args,
    );
    expect(responded).toEqual(result('out', 'err'));
    expect(parts.engine.executions[0]?.request).toEqual({
      // As written by the service.
      uri: 'code-execution-engine://Camel/Java',
      body: '',
      code: '1',
      arguments: { arg0: 'a' },
      configurationURI: '',
      secretsURI: '',
      timeout: 5_000,
      environment: { E: 'v' },
    });
  });

  test.each([
    ["the client's", 'abc', 'abc', 'abc'],
    ['a new one if the client sends none', '', undefined, UUID],
    ["a new one if metadata cannot contain the client's", '\u00e9', expect.any(String), UUID],
  ])('carries a request id, %s, and the log has both', async (_what, given, logged, expected) => {
    const { engine, url, service } = await setUp();
    const response = reading(url, '', { 'x-request-id': given });
    const execution = await engine.next();
    expect(execution.requestId).toEqual(expected);
    execution.end();
    expect(JSON.parse(await response.message(0)).result).toEqual(result());
    const line = await vi.waitFor(() => {
      const found = service.log.map((text) => JSON.parse(text)).find(({ transport }) => transport === 'code');
      if (!found) throw new Error('no line in the access log');
      return found;
    });
    expect([line.x_request_id, line.service_request_id]).toEqual([logged, execution.requestId]);
  });

  test('has events with the number of its arguments and [CODE], but no values', async () => {
    const parts = await setUp();
    const args = '{"code":"S3CRET","arguments":{"S3CRET":"S3CRET"},"environment":{"S3CRET":"S3CRET"}}';
    await run(parts, (execution) => execution.end(), args);
    const events = await eventsOf(parts.service);
    expect(events).toEqual([
      {
        eventId: expect.any(String),
        eventType: 'STARTED',
        timestamp: expect.any(String),
        transport: 'code',
        namespace: 'default',
        toolName: 'code-execution/camel/java',
        toolType: 'mcp-forward',
        serviceId: 'runner',
        serviceAddress: `127.0.0.1:${parts.engine.port}`,
        argumentCount: 1,
        headers: {},
        body: '[CODE]',
      },
      expect.objectContaining({ eventType: 'COMPLETED', isError: false, content: [], duration: expect.any(Number) }),
    ]);
    expect(JSON.stringify(events) + parts.service.log.join('')).not.toContain('S3CRET');
  });

  const BAD: CodeExecutionReply = { outputType: 'STDERR', status: 'FAILED', isError: true, content: ['bad'] };
  const WELL: CodeExecutionReply = { outputType: 'STDOUT', status: 'COMPLETED', content: ['42'] };
  const CODE_3: CodeExecutionReply = { outputType: 'COMPLETION', status: 'COMPLETED', exitCode: 3 };
  const ended = (execution: ReportedExecution): void => execution.end();
  const broken = (execution: ReportedExecution): void => execution.fail(status.INTERNAL, 'broken');

  test.each([
    ['an error reply, in its words', BAD, ended, ['bad'], 'EXECUTION_ERROR', 'bad'],
    ['an error reply, when the stream fails after it', BAD, broken, ['bad', 'broken'], 'EXECUTION_ERROR', 'bad'],
    ['its stream, when that fails after COMPLETED', WELL, broken, ['42', 'broken'], 'SERVICE_UNAVAILABLE', 'broken'],
    ['an exit code', CODE_3, ended, [NOT_0], 'EXECUTION_ERROR', NOT_0],
  ] as const)('fails of %s', async (_what, reply, end, texts, category, message) => {
    const parts = await setUp();
    const responded = await run(parts, (execution) => {
      execution.reply(reply);
      end(execution);
    });
    expect(responded).toEqual(failed(...texts));
    expect(await eventsOf(parts.service)).toMatchObject(
      startedAndFailed(category, message, category === 'EXECUTION_ERROR' ? 'tool_error' : 'failed'),
    );
  });

  const SERVICE = { category: 'SERVICE_UNAVAILABLE', name: 'code-execution/camel/cobol' };
  const DEFINITION = { category: 'TOOL_DEFINITION_ERROR', name: 'vague' };
  const ARGUMENTS = { category: 'INVALID_ARGUMENTS', name: 'code-execution/camel/java' };

  test.each([
    ['lost', '{"code":"x"}', 'There is no code execution service for camel/cobol', SERVICE],
    ['vague', '{"code":"x"}', 'tool vague: its uri must be code-execution-engine://{engine}/{language}', DEFINITION],
    ['run', '{}', 'Missing required parameter(s): code', ARGUMENTS],
    [
      'run',
      '{"code":"x","timeout":300001}',
      'timeout must be an integer number of milliseconds from 1 to 300000',
      ARGUMENTS,
    ],
    [
      'run',
      '{"code":"x","timeout":0}',
      'timeout must be an integer number of milliseconds from 1 to 300000',
      ARGUMENTS,
    ],
    ['run', `{"code":"${'x'.repeat(1024 * 1024 + 1)}"}`, 'code must have at most 1 MiB', ARGUMENTS],
    ['run', '[]', 'arguments must be an object', ARGUMENTS],
  ])(
    'of %s with %.40s fails before any service is called, with an error for its caller only',
    async (name, args, message, event) => {
      const { client, engine, service } = await setUp();
      const { result: responded } = await client.request('tools/call', `{"name":"${name}","arguments":${args}}`);
      expect(responded).toEqual(failed(message));
      expect(engine.executions).toEqual([]);
      expect(await eventsOf(service, event.name)).toMatchObject([
        { eventType: 'FAILED', transport: 'code', errorCategory: event.category, errorMessage: message, duration: 0 },
      ]);
    },
  );
});
