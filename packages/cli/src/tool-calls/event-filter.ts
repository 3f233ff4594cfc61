import type { ToolCallErrorCategory } from '@sluice/contract';
import type { ReceivedEvent } from './seen-event.ts';

/** Which events are wanted; all of them where nothing is said. */
export interface EventFilter {
  /** Only those of this tool. */
  readonly tool?: string;
  /** Only failures of this category. */
  readonly category?: ToolCallErrorCategory;
}

/** Whether an event is wanted. The service filters its list in the same way, and its stream not at all. */
export function matchesFilter({ tool, category }: EventFilter, event: ReceivedEvent): boolean {
  return (
    (tool === undefined || event.toolName === tool) && (category === undefined || event.errorCategory === category)
  );
}
