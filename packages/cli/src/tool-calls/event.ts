import type { ToolCallErrorCategory } from '@sluice/contract';
import { z } from 'zod';
import type { Column } from '../output/table.ts';

/** Members that are displayed or used. A service of another version may send more members and other values. */
const receivedEvent = z.object({
  eventId: z.string(),
  eventType: z.string(),
  timestamp: z.string(),
  namespace: z.string(),
  toolName: z.string(),
  serviceId: z.string().optional(),
  serviceAddress: z.string(),
  argumentNames: z.array(z.string()).optional(),
  argumentCount: z.unknown().optional(),
  isError: z.boolean().optional(),
  content: z.array(z.string()).optional(),
  duration: z.unknown().optional(),
  outcome: z.string().optional(),
  errorCategory: z.string().optional(),
  errorMessage: z.string().optional(),
});

/** An event of a tool call as received (decisions 6). */
export type ReceivedEvent = z.infer<typeof receivedEvent>;

export function isReceivedEvent(value: unknown): value is ReceivedEvent {
  return receivedEvent.safeParse(value).success;
}

/** Enough of an id to find the other event of the call. */
const SHORT_ID_LENGTH = 8;

/** Columns of an event. Events of one call have the same CALL. */
export const EVENT_COLUMNS: readonly Column<ReceivedEvent>[] = [
  { title: 'TIME', value: ({ timestamp }) => timestamp, cut: 'never' },
  { title: 'CALL', value: ({ eventId }) => eventId.slice(0, SHORT_ID_LENGTH), cut: 'never' },
  { title: 'EVENT', value: ({ eventType, outcome }) => outcome?.toUpperCase() ?? eventType, cut: 'never' },
  { title: 'TOOL', value: ({ toolName }) => toolName, cut: 'never' },
  { title: 'NAMESPACE', value: ({ namespace }) => namespace, cut: 'never' },
  { title: 'SERVICE', value: ({ serviceId, serviceAddress }) => serviceId ?? (serviceAddress || '-') },
  { title: 'MS', value: ({ duration }) => (duration === undefined ? '-' : JSON.stringify(duration)) },
  { title: 'DETAIL', value: formatDetail, cut: 'first' },
];

/** Error, result or arguments of the call. */
function formatDetail({
  errorCategory,
  errorMessage,
  isError,
  content,
  argumentNames,
  argumentCount,
}: ReceivedEvent): string {
  if (errorCategory !== undefined) return `${errorCategory}: ${errorMessage ?? ''}`;
  if (content !== undefined) return (isError ? 'error: ' : '') + content.join(' ');
  if (argumentNames !== undefined) return argumentNames.join(', ');
  return argumentCount === undefined ? '' : `${JSON.stringify(argumentCount)} arguments`;
}

/** Filter of events; everything by default. */
export interface EventFilter {
  /** Only those of this tool. */
  readonly tool?: string;
  /** Only failures of this category. */
  readonly category?: ToolCallErrorCategory;
}

/** Whether an event matches. The service filters its list in the same way, but not its stream. */
export function matchesFilter({ tool, category }: EventFilter, event: ReceivedEvent): boolean {
  return (
    (tool === undefined || event.toolName === tool) && (category === undefined || event.errorCategory === category)
  );
}
