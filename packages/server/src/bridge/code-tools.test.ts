import { once } from 'node:events';
import { request } from 'node:http';
import { status } from '@grpc/grpc-js';
import { describe, expect, onTestFinished, test } from 'vitest';
import { MODERN } from '../../../../test/fixtures/raw-client.ts';
import { type CodeService, type ReportedExecution, startCodeService } from '../testing/code-service.ts';
import { startTestService } from '../testing/service.ts';
import { clientOf, Reading, type Response, sessionClient } from '../testing/session-client.ts';

const STREAMS = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };

/** A service with the code tool `run`, and the engine that executes it. */
async function setUp(refusals = 0) {
  const engine = await startCodeService(refusals);
  onTestFinished(() => engine.close());
  const service = await startTestService();
  onTestFinished(() => service.stop());
  await service.manage('POST', '/services', {
    name: 'runner',
    serviceType: 'code-execution-engine',
    serviceSubType: 'Camel',
    languageName: 'Java',
    address: `127.0.0.1:${engine.port}`,
  });
  const tool = (name: string, uri: string) =>
    service.register('tools', {
      name,
      description: '',
      uri,
      toolType: 'mcp-forward',
      input_schema: { type: 'object' },
    });
  await tool('run', 'code-execution-engine://camel/java');
  await tool('lost', 'code-execution-engine://camel/cobol');
  await tool('vague', 'code-execution-engine://camel');
  return { engine, service, url: service.url(), client: clientOf(service.url(), {}) };
}

function call(id: number, { name = 'run', args = '{"code":"x"}', meta = '' } = {}): string {
  return `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"${name}","arguments":${args},"_meta":{${meta}}}}`;
}

/** Calls `run` and reads the answer as it comes. */
function reading(url: string, meta = '', headers: Readonly<Record<string, string>> = {}): Reading {
  return new Reading(url, 'POST', { ...STREAMS, ...headers }, call(1, { meta }));
}

function result(...texts: string[]) {
  return { content: texts.map((text) => ({ type: 'text', text })), isError: false };
}

function failed(...texts: string[]) {
  return { ...result(...texts), isError: true };
}

/** Calls `run`, has the engine report as the test says, and gives the result. */
async function run(
  { client, engine }: { client: { ask(method: string, params?: string): Promise<Response> }; engine: CodeService },
  report: (execution: ReportedExecution) => void,
  args = '{"code":"x"}',
): Promise<unknown> {
  const answer = client.ask('tools/call', `{"name":"run","arguments":${args}}`);
  report(await engine.next());
  return (await answer).result;
}

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

  test.each([
    ['lost', '{"code":"x"}', 'There is no code execution service for camel/cobol'],
    ['vague', '{"code":"x"}', 'tool vague: its uri must be code-execution-engine://{engine}/{language}'],
    ['run', '{}', 'Missing required parameter(s): code'],
    ['run', '{"code":"x","timeout":300001}', 'timeout must be a whole number of milliseconds from 1 to 300000'],
  ])('of %s with %s fails before any service is asked', async (name, args, message) => {
    const { client, engine } = await setUp();
    const { result: answered } = await client.ask('tools/call', `{"name":"${name}","arguments":${args}}`);
    expect(answered).toEqual(failed(message));
    expect(engine.executions).toEqual([]);
  });
});

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
    const answered = await run(parts, (execution) => {
      execution.reply({ outputType: 'STDOUT', status: 'COMPLETED', content: ['42'] });
      execution.reply({ outputType: 'STDERR', status: 'FAILED', content: ['late'], exitCode: 1 });
      execution.reply({ outputType: 'STATUS', status: 'TIMEOUT' });
      execution.end();
    });
    expect(answered).toEqual(result('42', 'late'));
    const lines = parts.service.log.filter((line) => line.includes('service::bridge') && line.includes('is ignored'));
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([{ state: 'COMPLETED', status: 'FAILED' }]);
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

describe('progress', () => {
  test('tells output and states as they come to a client that asked for it, and all output at the end', async () => {
    const { engine, url } = await setUp();
    const answer = reading(url, '"progressToken":"p"');
    const execution = await engine.next();
    const told = async (number: number) => JSON.parse(await answer.message(number));
    const progress = (at: number, message: string) => ({
      jsonrpc: '2.0',
      method: 'notifications/progress',
      params: { progressToken: 'p', progress: at, message },
    });
    execution.reply({ outputType: 'STATUS', status: 'RUNNING' });
    expect(await told(0)).toEqual(progress(1, 'RUNNING'));
    execution.reply({ outputType: 'STDOUT', status: 'RUNNING', content: ['a', 'b'] });
    expect(await told(1)).toEqual(progress(2, 'a'));
    expect(await told(2)).toEqual(progress(3, 'b'));
    execution.reply({ outputType: 'COMPLETION', status: 'COMPLETED' });
    execution.end();
    expect(await told(3)).toEqual({ jsonrpc: '2.0', id: 1, result: result('a', 'b') });
    expect(await answer.over).toBe(true);
    expect(answer.messages).toHaveLength(4);
  });

  test.each([
    ['did not ask for it', '', {}],
    ['reads no streams', '"progressToken":1', { accept: 'application/json' }],
  ])('is not told to a client that %s', async (_what, meta, headers) => {
    const { engine, url } = await setUp();
    const answer = reading(url, meta, headers);
    const execution = await engine.next();
    execution.reply({ outputType: 'STDOUT', status: 'COMPLETED', content: ['a'] });
    execution.end();
    expect(await answer.message(0)).toBe(JSON.stringify({ jsonrpc: '2.0', id: 1, result: result('a') }));
    expect((await answer.head).headers['content-type']).toBe('application/json');
  });

  test('waits for a client that reads slowly, and the code with it', async () => {
    const { engine, url } = await setUp();
    const CHUNKS = 48;
    const chunk = 'x'.repeat(1024 * 1024);
    let sent = 0;
    const flood = async (execution: ReportedExecution, count: () => void): Promise<void> => {
      for (let number = 0; number < CHUNKS; number++) {
        const room = execution.reply({
          outputType: 'COMPLETION',
          status: 'COMPLETED',
          content: [`${number} ${chunk}`],
        });
        if (!room) await execution.drained();
        count();
      }
      execution.end();
    };
    const slow = request(url, { method: 'POST', headers: STREAMS, agent: false });
    slow.end(call(1, { meta: '"progressToken":1' }));
    const flooded = flood(await engine.next(), () => sent++);
    const [response] = await once(slow, 'response');
    // Another one has had as much by the time that tells; it is read.
    const fast = reading(url, '"progressToken":1');
    await flood(await engine.next(), () => undefined);
    expect(await fast.over).toBe(true);
    expect(fast.messages).toHaveLength(CHUNKS + 1);
    expect(sent).toBeLessThan(CHUNKS);

    let text = '';
    for await (const bytes of response) text += bytes;
    await flooded;
    const numbers = [...text.matchAll(/"message":"(\d+) x/g)].map(([, number]) => Number(number));
    expect(numbers).toEqual([...Array(CHUNKS).keys()]);
  });
});

test('code of a legacy client that has left runs on to its end', async () => {
  const { engine, url } = await setUp();
  const answer = reading(url, '"progressToken":1');
  const execution = await engine.next();
  execution.reply({ outputType: 'STATUS', status: 'RUNNING' });
  await answer.message(0);
  answer.leave();
  const chunk = 'x'.repeat(1024 * 1024);
  for (let number = 0; number < 40; number++) {
    if (!execution.reply({ outputType: 'COMPLETION', status: 'COMPLETED', content: [chunk] }))
      await execution.drained();
  }
  execution.end();
});

describe('cancellation', () => {
  test("by a legacy client's notification reaches the service", async () => {
    const { engine, url } = await setUp();
    const client = await sessionClient(url);
    const answer = reading(url, '', client.headers);
    const execution = await engine.next();
    const notice = '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}';
    expect((await client.post(notice)).status).toBe(202);
    await execution.cancelled;
    await answer.over;
    expect(answer.messages).toEqual([]);
  });

  test('by a modern client that leaves reaches the service', async () => {
    const { engine, url } = await setUp();
    const meta = `"io.modelcontextprotocol/protocolVersion":"${MODERN}","io.modelcontextprotocol/clientCapabilities":{}`;
    const headers = { 'mcp-protocol-version': MODERN, 'mcp-method': 'tools/call', 'mcp-name': 'run' };
    const answer = reading(url, meta, headers);
    const execution = await engine.next();
    answer.leave();
    await execution.cancelled;
  });
});
