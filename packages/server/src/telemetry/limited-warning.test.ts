import { expect, test } from 'vitest';
import { DEFAULT_LOG_FILTER } from '../app/config/environment.ts';
import { limitedWarning } from './limited-warning.ts';
import { createLogger } from './log.ts';

test('warns of ids that are too long at most once a minute', () => {
  const lines: string[] = [];
  const log = createLogger(DEFAULT_LOG_FILTER, (line) => lines.push(line)).target('service::forward');
  let now = 0;
  const warn = limitedWarning(log, () => now);
  for (const at of [1, 2, 60_000, 60_001, 60_002]) {
    now = at;
    warn('x-request-id has more than 256 bytes and is ignored', { tool: `at ${at}` });
  }
  const logged = lines.map((line) => JSON.parse(line));
  expect(logged.map(({ tool }) => tool)).toEqual(['at 1', 'at 60001']);
  expect(logged[0]).toMatchObject({
    level: 'warn',
    msg: expect.stringMatching(/^x-request-id has more than 256 bytes/),
  });
});
