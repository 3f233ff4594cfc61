import { type ToolCallEvent, toolCallEvent } from '@sluice/contract';
import type { TestService } from './service.ts';

/** What is told of tool calls in the namespace of this MCP endpoint, in the order in which it happened. */
export async function eventsAt(service: TestService, url: string): Promise<ToolCallEvent[]> {
  const namespace = new URL(url).pathname.split('/')[1];
  const { data } = await service.manage('GET', '/tool-calls?limit=1000');
  const events = toolCallEvent.array().parse(data);
  return events.filter((event) => event.namespace === namespace).reverse();
}
