import { expect, test } from 'vitest';
import { DEFAULT_LOG_FILTER } from '../app/config/environment.ts';
import { LongIds } from './correlation.ts';
import { createLogger } from './log.ts';

test('ids that are too long are warned of, once a minute however many there are', () => {
  const lines: string[] = [];
  const log = createLogger(DEFAULT_LOG_FILTER, (line) => lines.push(line)).target('service::forward');
  let now = 0;
  const ids = new LongIds(log, () => now);
  ids.look({ 'x-request-id': 'r' }, 'fits');
  for (const at of [1, 2, 60_000, 60_001, 60_002]) {
    now = at;
    ids.look({ 'x-request-id': 'x'.repeat(257) }, `at ${at}`);
  }
  const told = lines.map((line) => JSON.parse(line));
  expect(told.map(({ tool }) => tool)).toEqual(['at 1', 'at 60001']);
  expect(told[0]).toMatchObject({ level: 'warn', msg: expect.stringMatching(/^x-request-id has more than 256 bytes/) });
});
