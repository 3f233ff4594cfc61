import { expect, test } from 'vitest';
import { correlationOf, idTooLong } from './correlation.ts';

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
])('ids are taken from the headers (case %#)', (headers, conversationId, requestId) => {
  expect(correlationOf(headers)).toEqual({ conversationId, requestId });
});

test('an id that is too long is named, for it to be warned of', () => {
  expect(idTooLong({ 'x-conversation-id': LONG, 'x-request-id': 'x'.repeat(256) })).toBe('x-conversation-id');
  expect(idTooLong({ 'x-conversation-id': 'x'.repeat(256), 'x-request-id': LONG })).toBe('x-request-id');
  expect(idTooLong({})).toBeUndefined();
});
