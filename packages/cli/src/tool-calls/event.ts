import type { ToolCallErrorCategory } from '@sluice/contract';
import { findShapeIssues } from '@sluice/contract/client';
import { counted } from '@sluice/protocol/text';
import type { Column } from '../output/table.ts';

/** An event of a tool call as received: the members that are displayed or used. Another version may send others too. */
export interface ReceivedEvent {
  readonly eventId: string;
  readonly eventType: string;
  readonly timestamp: string;
  readonly namespace: string;
  readonly toolName: string;
  readonly serviceId?: string | undefined;
  readonly serviceAddress: string;
  readonly argumentNames?: readonly string[] | undefined;
  readonly argumentCount?: unknown;
  readonly isError?: boolean | undefined;
  readonly content?: readonly string[] | undefined;
  readonly duration?: unknown;
  readonly outcome?: string | undefined;
  readonly errorCategory?: string | undefined;
  readonly errorMessage?: string | undefined;
}

const MEMBERS = {
  eventId: 'string',
  eventType: 'string',
  timestamp: 'string',
  namespace: 'string',
  toolName: 'string',
  'serviceId?': 'string',
  serviceAddress: 'string',
  'argumentNames?': 'array',
  'isError?': 'boolean',
  'content?': 'array',
  'outcome?': 'string',
  'errorCategory?': 'string',
  'errorMessage?': 'string',
};

export function isReceivedEvent(value: unknown): value is ReceivedEvent {
  return findShapeIssues({ raw: true, type: 'object', members: MEMBERS }, value).length === 0;
}

/** Enough of an id to find the other event of the call: its end, since consecutive ids begin with the same characters. */
const SHORT_ID_LENGTH = 8;

/** Columns of an event. Events of one call have the same CALL. */
export const EVENT_COLUMNS: readonly Column<ReceivedEvent>[] = [
  { title: 'TIME', value: ({ timestamp }) => timestamp, cut: 'never' },
  { title: 'CALL', value: ({ eventId }) => eventId.slice(-SHORT_ID_LENGTH), cut: 'never' },
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
  return argumentCount === undefined ? '' : counted(Number(argumentCount), 'argument');
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
