import * as host from 'service:evaluator/conversation';
import type { Message } from 'service:evaluator/types';
import { text } from './text.ts';

export function getHistory(conversationId: string): Message[] {
  return host.getHistory(text(conversationId, 'getHistory', 'conversation id'));
}
