import * as functions from 'service:evaluator/conversation';
import type { Message } from 'service:evaluator/types';
import { whenRunning } from './running.ts';
import { text } from './text.ts';

const host = whenRunning('conversation', functions);

export function getHistory(conversationId: string): Message[] {
  return host.getHistory(text(conversationId, 'getHistory', 'conversation id'));
}
