import { type ToolCallEvent, toolCallEvent } from '@sluice/contract';
import type { TestService } from './service.ts';

/** Events of tool calls in the namespace of this MCP endpoint, in order. */
export async function eventsAt(service: TestService, url: string): Promise<ToolCallEvent[]> {
  const namespace = new URL(url).pathname.split('/')[1];
  return (await events(service)).filter((event) => event.namespace === namespace);
}

/** Events of the last call of the tool with this name, in order. */
export async function eventsOfLastCall(service: TestService, toolName: string): Promise<ToolCallEvent[]> {
  const received = await events(service, `&toolName=${encodeURIComponent(toolName)}`);
  return received.filter(({ eventId }) => eventId === received.at(-1)?.eventId);
}

async function events(service: TestService, more = ''): Promise<ToolCallEvent[]> {
  const { data } = await service.manage('GET', `/tool-calls?limit=1000${more}`);
  return toolCallEvent.array().parse(data).reverse();
}
