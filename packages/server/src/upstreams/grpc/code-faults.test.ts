import { status } from '@grpc/grpc-js';
import { describe, expect, test } from 'vitest';
import { TAKES_ALL } from './fixtures/bridge-tests.ts';
import { codeTests, eventsOf, failed, reading, result, run } from './fixtures/code-tests.ts';
import { STARTED_AND_COMPLETED, startedAndFailed } from './fixtures/operation-tests.ts';
import type { CodeExecutionReply } from './generated/codeexecution/CodeExecutionReply.ts';

/** Short retry delays; their growth is tested with tools. */
const setUp = codeTests({ SERVICE_BRIDGE_GRPC_RETRY_DELAY_MS: '10' });

const DONE: CodeExecutionReply = { outputType: 'STDOUT', status: 'COMPLETED', content: ['well'] };

describe('failures', () => {
  test('an error reply, then the end of the stream', async () => {
    const responded = await run(await setUp(), (execution) => {
      execution.reply({ outputType: 'STDERR', status: 'FAILED', exitCode: 2, isError: true, content: ['bad request'] });
      execution.end();
    });
    expect(responded).toEqual(failed('bad request'));
  });

  test('an error reply without output has a message', async () => {
    const responded = await run(await setUp(), (execution) => {
      execution.reply({ outputType: 'COMPLETION', status: 'FAILED', exitCode: 1 });
      execution.end();
    });
    expect(responded).toEqual(failed('the execution ended as FAILED with exit code 1'));
  });

  test('an error reply, then a stream that fails', async () => {
    const responded = await run(await setUp(), (execution) => {
      execution.reply({ outputType: 'STDERR', status: 'FAILED', isError: true, content: ['bad'] });
      execution.fail(status.INTERNAL, 'and broken');
    });
    expect(responded).toEqual(failed('bad', 'and broken'));
  });

  test('a stream that fails after a COMPLETED status, with its output', async () => {
    const responded = await run(await setUp(), (execution) => {
      execution.reply({ outputType: 'STDOUT', status: 'COMPLETED', content: ['42'] });
      execution.fail(status.DATA_LOSS, 'lost the rest');
    });
    expect(responded).toEqual(failed('42', 'lost the rest'));
  });

  test('another status after a final one, ignored and logged once, with its output', async () => {
    const parts = await setUp();
    const before = parts.service.log.length;
    const responded = await run(parts, (execution) => {
      execution.reply({ outputType: 'STDOUT', status: 'COMPLETED', content: ['42'] });
      execution.reply({ outputType: 'STDERR', status: 'FAILED', content: ['late'], exitCode: 1 });
      execution.reply({ outputType: 'STATUS', status: 'TIMEOUT' });
      execution.end();
    });
    expect(responded).toEqual(result('42', 'late'));
    const lines = parts.service.log.slice(before).map((line) => JSON.parse(line));
    expect(
      lines.filter(({ target, msg }) => target === 'service::bridge' && msg === 'invalid execution status ignored'),
    ).toMatchObject([
      { state: 'COMPLETED', status: 'FAILED', service_request_id: parts.engine.executions[0]?.requestId },
    ]);
  });

  test('a service that dies after the first message is not retried', async () => {
    const parts = await setUp();
    const response = reading(parts.url, '"progressToken":1');
    (await parts.engine.next()).reply({ outputType: 'STDOUT', status: 'RUNNING', content: ['one'] });
    await response.message(0);
    parts.engine.die();
    const responded = JSON.parse(await response.message(1)).result;
    expect(responded).toMatchObject({ isError: true, content: [{ text: 'one' }, { text: expect.any(String) }] });
    expect(responded.content[1].text).toContain(`service runner at 127.0.0.1:${parts.engine.port} is not available`);
    expect(parts.engine.executions).toHaveLength(1);
  });

  test('a service that is UNAVAILABLE after the first message is not retried', async () => {
    const parts = await setUp();
    const responded = await run(parts, (execution) => {
      execution.reply({ outputType: 'STATUS', status: 'RUNNING' });
      execution.fail(status.UNAVAILABLE, 'shutting down');
    });
    expect(responded).toEqual(
      failed(`service runner at 127.0.0.1:${parts.engine.port} is not available: shutting down`),
    );
    expect(parts.engine.executions).toHaveLength(1);
  });

  test('a service that is UNAVAILABLE three times, then executes the code', async () => {
    const responded = await run(await setUp(3), (execution) => {
      execution.reply({ outputType: 'STDOUT', status: 'COMPLETED', content: ['at last'] });
      execution.end();
    });
    expect(responded).toEqual(result('at last'));
  });

  test('a service that stays UNAVAILABLE', async () => {
    const { client, engine } = await setUp(4);
    const { result: responded } = await client.request('tools/call', '{"name":"run","arguments":{"code":"x"}}');
    expect(responded).toEqual(failed(`service runner at 127.0.0.1:${engine.port} is not available: warming up`));
    expect(engine.executions).toEqual([]);
  });
});

describe('failures after which the channel works again, with events', () => {
  test.each(['cut', 'reset'] as const)('a connection that is %s during a stream', async (how) => {
    const parts = await setUp();
    const response = reading(parts.url, '"progressToken":1');
    (await parts.engine.next()).reply({ outputType: 'STDOUT', status: 'RUNNING', content: ['one'] });
    await response.message(0);
    parts.engine.proxy[how]();
    const { content, isError } = JSON.parse(await response.message(1)).result;
    expect([isError, content]).toMatchObject([true, [{ text: 'one' }, { text: expect.any(String) }]]);
    expect(await eventsOf(parts.service)).toMatchObject(startedAndFailed('SERVICE_UNAVAILABLE', content[1].text));
    const again = await run(parts, (execution) => {
      execution.reply(DONE);
      execution.end();
    });
    expect(again).toEqual(result('well'));
    expect(await eventsOf(parts.service)).toMatchObject([{}, { ...STARTED_AND_COMPLETED[1], content: ['well'] }]);
    expect(parts.engine.executions).toHaveLength(2);
  });

  test('a reply of more than 4 MiB in a stream, with the output so far', async () => {
    const parts = await setUp(0, TAKES_ALL);
    const responded = await run(parts, (execution) => {
      execution.reply({ outputType: 'STDOUT', status: 'RUNNING', content: ['one'] });
      execution.reply({ outputType: 'STDOUT', status: 'RUNNING', content: ['x'.repeat(4 * 1024 * 1024)] });
    });
    const message = expect.stringMatching(/^Received message larger than max \(\d+ vs 4194304\)$/);
    expect(responded).toMatchObject({ isError: true, content: [{ text: 'one' }, { text: message }] });
    expect(await eventsOf(parts.service)).toMatchObject(startedAndFailed('SERVICE_UNAVAILABLE', message));
    await parts.engine.executions[0]?.canceled;
    const again = await run(parts, (execution) => {
      execution.reply(DONE);
      execution.end();
    });
    expect(again).toEqual(result('well'));
    expect(parts.engine.proxy.accepted).toBe(1);
  });

  test('a service without a reply for 5 s longer than the timeout of the code', async () => {
    const parts = await setUp();
    const responded = await run(
      parts,
      (execution) => {
        expect(execution.timeLeft).toBeGreaterThan(60_000);
        expect(execution.timeLeft).toBeLessThanOrEqual(65_000);
        // Detected by either side, whichever is first.
        execution.fail(status.DEADLINE_EXCEEDED, 'Deadline exceeded');
      },
      '{"code":"x","timeout":60000}',
    );
    const message = `service runner at 127.0.0.1:${parts.engine.port} did not answer in time: Deadline exceeded`;
    expect(responded).toEqual(failed(message));
    expect(await eventsOf(parts.service)).toMatchObject(startedAndFailed('SERVICE_UNAVAILABLE', message, 'timeout'));
    expect(parts.engine.executions).toHaveLength(1);
  });

  test('GOAWAY during a stream: it finishes', async () => {
    const parts = await setUp();
    let finished: Promise<void> | undefined;
    const responded = await run(parts, (execution) => {
      finished = parts.engine.finish();
      execution.reply(DONE);
      execution.end();
    });
    expect(responded).toEqual(result('well'));
    await finished;
    const message = expect.stringContaining(' is not available: ');
    const { result: after } = await parts.client.request('tools/call', '{"name":"run","arguments":{"code":"x"}}');
    expect(after).toMatchObject({ isError: true, content: [{ text: message }] });
    expect(await eventsOf(parts.service)).toMatchObject(startedAndFailed('SERVICE_UNAVAILABLE', message));
  });

  test('a service that repeats its status endlessly, with its output', async () => {
    const parts = await setUp();
    const responded = await run(parts, (execution) => {
      for (let number = 0; number < 20_000; number++) execution.reply({ outputType: 'STATUS', status: 'RUNNING' });
      execution.reply(DONE);
      execution.end();
    });
    expect(responded).toEqual(result('well'));
  });

  test('an error reply after COMPLETED counts, although its status is ignored', async () => {
    const parts = await setUp();
    const responded = await run(parts, (execution) => {
      execution.reply(DONE);
      execution.reply({ outputType: 'STDERR', status: 'FAILED', isError: true, content: ['after all'] });
      execution.end();
    });
    expect(responded).toEqual(failed('well', 'after all'));
    expect(await eventsOf(parts.service)).toMatchObject(startedAndFailed('EXECUTION_ERROR', 'after all', 'tool_error'));
  });
});
