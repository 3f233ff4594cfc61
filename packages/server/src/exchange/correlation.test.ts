import { expect, test } from 'vitest';
import { correlationOf } from './correlation.ts';

const LONG = 'x'.repeat(257);

test.each([
  [{ 'x-conversation-id': 'c', 'x-request-id': 'r' }, 'c', 'r', undefined],
  [{ 'x-request-id': 'r' }, 'r', 'r', undefined],
  [{}, undefined, undefined, undefined],
  [{ 'x-conversation-id': '', 'x-request-id': '' }, undefined, undefined, undefined],
  [{ 'x-conversation-id': LONG, 'x-request-id': 'r' }, 'r', 'r', 'x-conversation-id'],
  [{ 'x-conversation-id': 'c', 'x-request-id': LONG }, 'c', undefined, 'x-request-id'],
  [{ 'x-conversation-id': LONG, 'x-request-id': LONG }, undefined, undefined, 'x-conversation-id'],
  [{ 'x-conversation-id': 'x'.repeat(256) }, 'x'.repeat(256), undefined, undefined],
])('takes ids from the headers (case %#)', (headers, conversationId, requestId, oversizedHeader) => {
  expect(correlationOf(headers)).toEqual({ conversationId, requestId, oversizedHeader });
});
