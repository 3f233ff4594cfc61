import { type ToolCallEvent, toolCallEvent } from '@sluice/contract';
import type { TestService } from './service.ts';

/** What is told of tool calls in the namespace of this MCP endpoint, in the order in which it happened. */
export async function eventsAt(service: TestService, url: string): Promise<ToolCallEvent[]> {
  const namespace = new URL(url).pathname.split('/')[1];
  return (await events(service)).filter((event) => event.namespace === namespace);
}

/** What is told of the last call of the tool that events call so, in the order in which it happened. */
export async function eventsOfLastCall(service: TestService, toolName: string): Promise<ToolCallEvent[]> {
  const told = await events(service, `&toolName=${encodeURIComponent(toolName)}`);
  return told.filter(({ eventId }) => eventId === told.at(-1)?.eventId);
}

async function events(service: TestService, more = ''): Promise<ToolCallEvent[]> {
  const { data } = await service.manage('GET', `/tool-calls?limit=1000${more}`);
  return toolCallEvent.array().parse(data).reverse();
}
