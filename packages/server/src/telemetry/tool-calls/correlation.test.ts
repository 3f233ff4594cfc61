import { expect, test } from 'vitest';
import { correlationOf, idsTooLong } from './correlation.ts';

const LONG = 'x'.repeat(257);

test.each([
  [{ 'x-conversation-id': 'c', 'x-request-id': 'r' }, 'b', 'c', 'r'],
  [{ 'x-request-id': 'r' }, 'b', 'r', 'r'],
  [{}, 'b', 'b', undefined],
  [{}, undefined, undefined, undefined],
  [{ 'x-conversation-id': '' }, 'b', 'b', undefined],
  [{ 'x-conversation-id': LONG, 'x-request-id': 'r' }, 'b', 'r', 'r'],
  [{ 'x-conversation-id': 'c', 'x-request-id': LONG }, 'b', 'c', undefined],
  [{ 'x-conversation-id': LONG, 'x-request-id': LONG }, 'b', 'b', undefined],
  [{ 'x-conversation-id': 'x'.repeat(256) }, undefined, 'x'.repeat(256), undefined],
])('ids are taken from the headers, then from the binding (case %#)', (headers, bound, conversationId, requestId) => {
  expect(correlationOf(headers, bound)).toEqual({ conversationId, requestId });
});

test('ids that are too long are named, for them to be warned of', () => {
  expect(idsTooLong({ 'x-conversation-id': LONG, 'x-request-id': 'x'.repeat(256) })).toEqual(['x-conversation-id']);
  expect(idsTooLong({ 'x-request-id': LONG })).toEqual(['x-request-id']);
  expect(idsTooLong({})).toEqual([]);
});
