import { describe, expect, test } from 'vitest';
import { failed, reading, result, run, setUp, told } from './fixtures/code-tests.ts';

describe('a call', () => {
  test('has the code executed by the service of engine and language, and answers with its output', async () => {
    const parts = await setUp();
    const args = '{"code":"MQ==","arguments":["a"],"environment":{"E":"v"},"timeout":5000}';
    const answered = await run(
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
    expect(answered).toEqual(result('out', 'err'));
    expect(parts.engine.executions[0]?.request).toEqual({
      // As the service spells it.
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

  test("carries the client's request id", async () => {
    const { engine, url } = await setUp();
    const answer = reading(url, '', { 'x-request-id': 'abc' });
    const execution = await engine.next();
    expect(execution.requestId).toBe('abc');
    execution.end();
    expect(JSON.parse(await answer.message(0)).result).toEqual(result());
  });

  test('is told with the number of its arguments and [CODE], and nothing of what they carry', async () => {
    const parts = await setUp();
    const args = '{"code":"S3CRET","arguments":{"S3CRET":"S3CRET"},"environment":{"S3CRET":"S3CRET"}}';
    await run(parts, (execution) => execution.end(), args);
    const events = await told(parts.service);
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
      'timeout must be a whole number of milliseconds from 1 to 300000',
      ARGUMENTS,
    ],
    ['run', '{"code":"x","timeout":0}', 'timeout must be a whole number of milliseconds from 1 to 300000', ARGUMENTS],
    ['run', `{"code":"${'x'.repeat(1024 * 1024 + 1)}"}`, 'code must have at most 1 MiB', ARGUMENTS],
    ['run', '[]', 'arguments must be an object', ARGUMENTS],
  ])('of %s with %.40s fails before any service is asked, and is told so alone', async (name, args, message, event) => {
    const { client, engine, service } = await setUp();
    const { result: answered } = await client.ask('tools/call', `{"name":"${name}","arguments":${args}}`);
    expect(answered).toEqual(failed(message));
    expect(engine.executions).toEqual([]);
    expect(await told(service, event.name)).toMatchObject([
      { eventType: 'FAILED', transport: 'code', errorCategory: event.category, errorMessage: message, duration: 0 },
    ]);
  });
});
