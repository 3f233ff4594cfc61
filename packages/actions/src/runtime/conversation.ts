import * as functions from 'service:evaluator/conversation';
import type { Message } from 'service:evaluator/types';
import { guardHostFunctions, requireString } from './host-calls.ts';

const host = guardHostFunctions('conversation', functions);

export function getHistory(conversationId: string): Message[] {
  return host.getHistory(requireString(conversationId, 'getHistory', 'conversation id'));
}
