import { status } from '@grpc/grpc-js';
import { describe, expect, test } from 'vitest';
import { TAKES_ALL } from './fixtures/bridge-tests.ts';
import { codeTests, failed, reading, result, run, told } from './fixtures/code-tests.ts';
import { BEGUN_AND_COMPLETED, begunAndFailed } from './fixtures/work-tests.ts';
import type { CodeExecutionReply } from './generated/codeexecution/CodeExecutionReply.ts';

/** Attempts follow each other quickly; how they wait is shown where tools are called. */
const setUp = codeTests({ SERVICE_BRIDGE_GRPC_RETRY_DELAY_MS: '10' });

const DONE: CodeExecutionReply = { outputType: 'STDOUT', status: 'COMPLETED', content: ['well'] };

describe('what goes wrong', () => {
  test('an error reply, then the end of the stream', async () => {
    const answered = await run(await setUp(), (execution) => {
      execution.reply({ outputType: 'STDERR', status: 'FAILED', exitCode: 2, isError: true, content: ['bad request'] });
      execution.end();
    });
    expect(answered).toEqual(failed('bad request'));
  });

  test('an error reply without output, which is said all the same', async () => {
    const answered = await run(await setUp(), (execution) => {
      execution.reply({ outputType: 'COMPLETION', status: 'FAILED', exitCode: 1 });
      execution.end();
    });
    expect(answered).toEqual(failed('the execution ended as FAILED with exit code 1'));
  });

  test('an error reply, then a stream that fails', async () => {
    const answered = await run(await setUp(), (execution) => {
      execution.reply({ outputType: 'STDERR', status: 'FAILED', isError: true, content: ['bad'] });
      execution.fail(status.INTERNAL, 'and broken');
    });
    expect(answered).toEqual(failed('bad', 'and broken'));
  });

  test('a stream that fails after a COMPLETED status: its output is kept', async () => {
    const answered = await run(await setUp(), (execution) => {
      execution.reply({ outputType: 'STDOUT', status: 'COMPLETED', content: ['42'] });
      execution.fail(status.DATA_LOSS, 'lost the rest');
    });
    expect(answered).toEqual(failed('42', 'lost the rest'));
  });

  test('another status after an end: it is ignored and logged once, its output is kept', async () => {
    const parts = await setUp();
    const before = parts.service.log.length;
    const answered = await run(parts, (execution) => {
      execution.reply({ outputType: 'STDOUT', status: 'COMPLETED', content: ['42'] });
      execution.reply({ outputType: 'STDERR', status: 'FAILED', content: ['late'], exitCode: 1 });
      execution.reply({ outputType: 'STATUS', status: 'TIMEOUT' });
      execution.end();
    });
    expect(answered).toEqual(result('42', 'late'));
    const lines = parts.service.log.slice(before).map((line) => JSON.parse(line));
    expect(lines.filter(({ target, msg }) => target === 'service::bridge' && msg.includes('is ignored'))).toMatchObject(
      [{ state: 'COMPLETED', status: 'FAILED', service_request_id: parts.engine.executions[0]?.requestId }],
    );
  });

  test('a service that dies after the first message is not asked again', async () => {
    const parts = await setUp();
    const answer = reading(parts.url, '"progressToken":1');
    (await parts.engine.next()).reply({ outputType: 'STDOUT', status: 'RUNNING', content: ['one'] });
    await answer.message(0);
    parts.engine.die();
    const answered = JSON.parse(await answer.message(1)).result;
    expect(answered).toMatchObject({ isError: true, content: [{ text: 'one' }, { text: expect.any(String) }] });
    expect(answered.content[1].text).toContain(`service runner at 127.0.0.1:${parts.engine.port} is not available`);
    expect(parts.engine.executions).toHaveLength(1);
  });

  test('a service that says it is unavailable after the first message is not asked again', async () => {
    const parts = await setUp();
    const answered = await run(parts, (execution) => {
      execution.reply({ outputType: 'STATUS', status: 'RUNNING' });
      execution.fail(status.UNAVAILABLE, 'shutting down');
    });
    expect(answered).toEqual(
      failed(`service runner at 127.0.0.1:${parts.engine.port} is not available: shutting down`),
    );
    expect(parts.engine.executions).toHaveLength(1);
  });

  test('a service that is unavailable three times, then takes the code', async () => {
    const answered = await run(await setUp(3), (execution) => {
      execution.reply({ outputType: 'STDOUT', status: 'COMPLETED', content: ['at last'] });
      execution.end();
    });
    expect(answered).toEqual(result('at last'));
  });

  test('a service that stays unavailable', async () => {
    const { client, engine } = await setUp(4);
    const { result: answered } = await client.ask('tools/call', '{"name":"run","arguments":{"code":"x"}}');
    expect(answered).toEqual(failed(`service runner at 127.0.0.1:${engine.port} is not available: warming up`));
    expect(engine.executions).toEqual([]);
  });
});

describe('after it, the channel is well again, and the events say what it was', () => {
  test.each(['cut', 'reset'] as const)('a connection that is %s in the middle of a stream', async (how) => {
    const parts = await setUp();
    const answer = reading(parts.url, '"progressToken":1');
    (await parts.engine.next()).reply({ outputType: 'STDOUT', status: 'RUNNING', content: ['one'] });
    await answer.message(0);
    parts.engine.door[how]();
    const { content, isError } = JSON.parse(await answer.message(1)).result;
    expect([isError, content]).toMatchObject([true, [{ text: 'one' }, { text: expect.any(String) }]]);
    expect(await told(parts.service)).toMatchObject(begunAndFailed('SERVICE_UNAVAILABLE', content[1].text));
    const again = await run(parts, (execution) => {
      execution.reply(DONE);
      execution.end();
    });
    expect(again).toEqual(result('well'));
    expect(await told(parts.service)).toMatchObject([{}, { ...BEGUN_AND_COMPLETED[1], content: ['well'] }]);
    expect(parts.engine.executions).toHaveLength(2);
  });

  test('a reply of more than 4 MiB in a stream, whose output so far is kept', async () => {
    const parts = await setUp(0, TAKES_ALL);
    const answered = await run(parts, (execution) => {
      execution.reply({ outputType: 'STDOUT', status: 'RUNNING', content: ['one'] });
      execution.reply({ outputType: 'STDOUT', status: 'RUNNING', content: ['x'.repeat(4 * 1024 * 1024)] });
    });
    const message = expect.stringMatching(/^Received message larger than max \(\d+ vs 4194304\)$/);
    expect(answered).toMatchObject({ isError: true, content: [{ text: 'one' }, { text: message }] });
    expect(await told(parts.service)).toMatchObject(begunAndFailed('SERVICE_UNAVAILABLE', message));
    await parts.engine.executions[0]?.cancelled;
    const again = await run(parts, (execution) => {
      execution.reply(DONE);
      execution.end();
    });
    expect(again).toEqual(result('well'));
    expect(parts.engine.door.accepted).toBe(1);
  });

  test('a service that stays silent for 5 s longer than its code may run, as it is told', async () => {
    const parts = await setUp();
    const answered = await run(
      parts,
      (execution) => {
        expect(execution.timeLeft).toBeGreaterThan(60_000);
        expect(execution.timeLeft).toBeLessThanOrEqual(65_000);
        // As either side finds it, whichever is first.
        execution.fail(status.DEADLINE_EXCEEDED, 'Deadline exceeded');
      },
      '{"code":"x","timeout":60000}',
    );
    const message = `service runner at 127.0.0.1:${parts.engine.port} did not answer in time: Deadline exceeded`;
    expect(answered).toEqual(failed(message));
    expect(await told(parts.service)).toMatchObject(begunAndFailed('SERVICE_UNAVAILABLE', message));
    expect(parts.engine.executions).toHaveLength(1);
  });

  test('a service that says goodbye in the middle of a stream: it is finished', async () => {
    const parts = await setUp();
    let finished: Promise<void> | undefined;
    const answered = await run(parts, (execution) => {
      finished = parts.engine.finish();
      execution.reply(DONE);
      execution.end();
    });
    expect(answered).toEqual(result('well'));
    await finished;
    const message = expect.stringContaining(' is not available: ');
    const { result: after } = await parts.client.ask('tools/call', '{"name":"run","arguments":{"code":"x"}}');
    expect(after).toMatchObject({ isError: true, content: [{ text: message }] });
    expect(await told(parts.service)).toMatchObject(begunAndFailed('SERVICE_UNAVAILABLE', message));
  });

  test('a service that never stops naming its status has its output taken all the same', async () => {
    const parts = await setUp();
    const answered = await run(parts, (execution) => {
      for (let number = 0; number < 20_000; number++) execution.reply({ outputType: 'STATUS', status: 'RUNNING' });
      execution.reply(DONE);
      execution.end();
    });
    expect(answered).toEqual(result('well'));
  });

  test('an error reply after COMPLETED: it counts, though its status does not', async () => {
    const parts = await setUp();
    const answered = await run(parts, (execution) => {
      execution.reply(DONE);
      execution.reply({ outputType: 'STDERR', status: 'FAILED', isError: true, content: ['after all'] });
      execution.end();
    });
    expect(answered).toEqual(failed('well', 'after all'));
    expect(await told(parts.service)).toMatchObject(begunAndFailed('EXECUTION_ERROR', 'after all'));
  });
});
