import { once } from 'node:events';
import { get as httpGet, type IncomingMessage } from 'node:http';
import { LOG_CAPACITY, LOG_LEVELS, logLine } from '@sluice/contract';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { type Api, startApi } from './api.fixture.ts';

const PATH = '/api/v1/logs';
const lines = z.array(logLine);

let api: Api;
beforeEach(async (context) => {
  api = await startApi(context);
});

const log = (msg: string, level: 'warn' | 'error' = 'warn', fields = {}) =>
  api.logger.target('service')[level](msg, fields);

async function listed(query = '') {
  const { data } = await api.call('GET', `${PATH}${query}`);
  // Without the lines of requests.
  return lines.parse(data).filter(({ target }) => target === 'service');
}

/** The text of an open stream as it arrives. */
async function open(query: string, lastId?: string) {
  const headers = lastId === undefined ? {} : { 'last-event-id': lastId };
  const request = httpGet(`${api.url}${PATH}/notifications${query}`, { agent: false, headers });
  onTestFinished(() => void request.destroy());
  const [response]: IncomingMessage[] = await once(request, 'response');
  if (!response) throw new Error('no response');
  response.on('error', () => {});
  let text = '';
  const received = {
    response,
    /** Messages of the lines, `missed` events as they are, and the last id. */
    read: () => ({
      messages: [...text.matchAll(/^data: (.*)$/gm)].map(([, data = '']) => JSON.parse(data).msg ?? data),
      id: [...text.matchAll(/^id: (.*)$/gm)].at(-1)?.[1],
    }),
  };
  return Object.assign(received, {
    follow: () => response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk)),
  });
}

describe('the stored lines', () => {
  test('are listed oldest first, with their fields, by level and number', async () => {
    log('a', 'warn', { forward: 'crm' });
    log('b', 'error');
    log('c');
    expect(await listed()).toMatchObject([{ level: 'warn', msg: 'a', forward: 'crm' }, { msg: 'b' }, { msg: 'c' }]);
    expect(await listed('?level=error')).toMatchObject([{ msg: 'b' }]);
    expect((await listed('?level=warn&limit=2')).map(({ msg }) => msg)).toEqual(['b', 'c']);
  });

  test.each(LOG_LEVELS)('of level %s include the more severe ones', async (level) => {
    log('warning');
    log('error', 'error');
    const expected = level === 'error' ? ['error'] : ['warning', 'error'];
    expect((await listed(`?level=${level}`)).map(({ msg }) => msg)).toEqual(expected);
  });

  test('are the latest ones, and without the fields of a long line', async () => {
    for (let count = 0; count <= LOG_CAPACITY; count += 1) log(`line ${count}`);
    log('long', 'warn', { text: 'x'.repeat(100_000) });
    const found = await listed('?level=warn');
    expect(found).toHaveLength(LOG_CAPACITY);
    expect(found[0]?.msg).toBe('line 2');
    expect(found.at(-1)).toEqual({
      ts: expect.any(String),
      level: 'warn',
      target: 'service',
      msg: 'long',
      truncated: true,
    });
  });
});

describe('the stream', () => {
  test('begins with stored lines and continues with new ones, also after a reconnection', async () => {
    log('a');
    log('b');
    const first = await open('?level=warn&limit=1');
    first.follow();
    await expect.poll(() => first.read().messages).toEqual(['b']);
    log('c');
    await expect.poll(() => first.read().messages).toEqual(['b', 'c']);
    const { id } = first.read();
    log('d');
    const second = await open('?level=warn', id);
    second.follow();
    await expect.poll(() => second.read().messages).toEqual(['d']);
  });

  test('reports what a client that does not read misses, and stores nothing for it', async () => {
    const slow = await open('?level=warn');
    // More than the buffers of the sockets take.
    for (let round = 0; round < 8; round += 1) {
      for (let count = 0; count < LOG_CAPACITY; count += 1) log('x'.repeat(3_900));
      await new Promise((resolve) => setImmediate(resolve));
    }
    let missed: string | undefined;
    let end = '';
    slow.response.setEncoding('utf8').on('data', (chunk: string) => {
      missed ??= /event: missed\ndata: \{"count":(\d+)\}\n\n/.exec(end + chunk)?.[1];
      end = (end + chunk).slice(-500);
    });
    await expect.poll(() => Number(missed), { timeout: 10_000 }).toBeGreaterThan(0);
    log('newest');
    await expect.poll(() => end).toContain('"msg":"newest"');
  });
});
