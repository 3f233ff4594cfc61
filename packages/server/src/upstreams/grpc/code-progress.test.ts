import { once } from 'node:events';
import { request } from 'node:http';
import { describe, expect, test } from 'vitest';
import type { ReportedExecution } from '../../../testing/code-service.ts';
import { callOfRun, reading, result, STREAMS, setUp } from './fixtures/code-tests.ts';

describe('progress', () => {
  test('sends output and states as they arrive to a client that requests progress, and all output at the end', async () => {
    const { engine, url } = await setUp();
    const response = reading(url, '"progressToken":"p"');
    const execution = await engine.next();
    const message = async (number: number) => JSON.parse(await response.message(number));
    const progress = (at: number, message: string) => ({
      jsonrpc: '2.0',
      method: 'notifications/progress',
      params: { progressToken: 'p', progress: at, message },
    });
    execution.reply({ outputType: 'STATUS', status: 'RUNNING' });
    expect(await message(0)).toEqual(progress(1, 'RUNNING'));
    execution.reply({ outputType: 'STDOUT', status: 'RUNNING', content: ['a', 'b'] });
    expect(await message(1)).toEqual(progress(2, 'a\nb'));
    execution.reply({ outputType: 'COMPLETION', status: 'COMPLETED' });
    execution.end();
    expect(await message(2)).toEqual({ jsonrpc: '2.0', id: 1, result: result('a', 'b') });
    expect(await response.ended).toBe(true);
    expect(response.messages).toHaveLength(3);
  });

  test.each([
    ['did not request it', '', {}],
    ['reads no streams', '"progressToken":1', { accept: 'application/json' }],
  ])('is not sent to a client that %s', async (_what, meta, headers) => {
    const { engine, url } = await setUp();
    const response = reading(url, meta, headers);
    const execution = await engine.next();
    execution.reply({ outputType: 'STDOUT', status: 'COMPLETED', content: ['a'] });
    execution.end();
    expect(await response.message(0)).toBe(JSON.stringify({ jsonrpc: '2.0', id: 1, result: result('a') }));
    expect((await response.head).headers['content-type']).toBe('application/json');
  });

  test('applies the backpressure of a slow client to the code', async () => {
    const { engine, url } = await setUp();
    // The system's buffers between the service and the client take up to 36 MiB.
    const CHUNKS = 42;
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
    slow.end(callOfRun({ meta: '"progressToken":1' }));
    const flooded = flood(await engine.next(), () => sent++);
    const [response] = await once(slow, 'response');
    // By then an unlimited one would have sent as much.
    const fast = reading(url, '"progressToken":1');
    await flood(await engine.next(), () => undefined);
    expect(await fast.ended).toBe(true);
    expect(fast.messages).toHaveLength(CHUNKS + 1);
    expect(sent).toBeLessThan(CHUNKS);

    let text = '';
    for await (const bytes of response) text += bytes;
    await flooded;
    const numbers = [...text.matchAll(/"message":"(\d+) x/g)].map(([, number]) => Number(number));
    expect(numbers).toEqual([...Array(CHUNKS).keys()]);
  });
});
