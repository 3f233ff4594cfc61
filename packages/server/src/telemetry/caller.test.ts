import { expect, test } from 'vitest';
import { DEFAULT_LOG_FILTER } from '../app/config/environment.ts';
import { callerOf, correlationOf, OversizedIdWarner, oversizedIdHeader } from './caller.ts';
import { createLogger } from './log.ts';

const LONG = 'x'.repeat(257);

test.each([
  [{ 'x-conversation-id': 'c', 'x-request-id': 'r' }, 'c', 'r'],
  [{ 'x-request-id': 'r' }, 'r', 'r'],
  [{}, undefined, undefined],
  [{ 'x-conversation-id': '', 'x-request-id': '' }, undefined, undefined],
  [{ 'x-conversation-id': LONG, 'x-request-id': 'r' }, 'r', 'r'],
  [{ 'x-conversation-id': 'c', 'x-request-id': LONG }, 'c', undefined],
  [{ 'x-conversation-id': LONG, 'x-request-id': LONG }, undefined, undefined],
  [{ 'x-conversation-id': 'x'.repeat(256) }, 'x'.repeat(256), undefined],
])('takes ids from the headers (case %#)', (headers, conversationId, requestId) => {
  expect(correlationOf(headers)).toEqual({ conversationId, requestId });
});

test('returns the header of an oversized id', () => {
  expect(oversizedIdHeader({ 'x-conversation-id': LONG, 'x-request-id': 'x'.repeat(256) })).toBe('x-conversation-id');
  expect(oversizedIdHeader({ 'x-conversation-id': 'x'.repeat(256), 'x-request-id': LONG })).toBe('x-request-id');
  expect(oversizedIdHeader({})).toBeUndefined();
});

test('warns of ids that are too long at most once a minute', () => {
  const lines: string[] = [];
  const log = createLogger(DEFAULT_LOG_FILTER, (line) => lines.push(line)).target('service::forward');
  let now = 0;
  const ids = new OversizedIdWarner(log, () => now);
  for (const at of [1, 2, 60_000, 60_001, 60_002]) {
    now = at;
    ids.warn('x-request-id', `at ${at}`);
  }
  const logged = lines.map((line) => JSON.parse(line));
  expect(logged.map(({ tool }) => tool)).toEqual(['at 1', 'at 60001']);
  expect(logged[0]).toMatchObject({
    level: 'warn',
    msg: expect.stringMatching(/^x-request-id has more than 256 bytes/),
  });
});

test.each([
  [{}, undefined],
  [{ 'x-forwarded-user': 'a' }, 'a'],
  [{ 'x-auth-request-user': 'a' }, 'a'],
  [{ 'x-forwarded-user': 'a', 'x-auth-request-user': 'a' }, 'a'],
  [{ 'x-forwarded-user': 'a', 'x-auth-request-user': 'b' }, '["a","b"]'],
])('takes the user from the headers of an authenticating proxy (case %#)', (headers, user) => {
  expect(callerOf(headers).user).toBe(user);
});
