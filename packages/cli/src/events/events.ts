import { unwrapStream } from '@sluice/contract/client';
import { EVENT_TOPICS } from '@sluice/contract/values';
import { isJsonObject, type JsonObject, parseLossless } from '@sluice/protocol/json/parse';
import type { ServerSentEvent } from '@sluice/protocol/mcp/event-stream';
import type { ReconnectDelay } from '@sluice/protocol/timing';
import { Command } from 'commander';
import { EVENT_STREAM, notManagementApi } from '../connection/connect.ts';
import { type FollowedStream, followStream, printStatus, readEvents } from '../connection/follow.ts';
import type { Context } from '../context.ts';
import { Failure } from '../failure.ts';
import type { Column } from '../output/table.ts';

/** An event of the service. A service of another version may send more topics and members. */
interface ServiceEvent {
  readonly topic: string;
  readonly data: JsonObject;
}

const COLUMNS: readonly Column<ServiceEvent>[] = [
  { title: 'TIME', value: ({ data }) => textOf(data.timestamp ?? changeOf(data).timestamp), cut: 'never' },
  { title: 'TOPIC', value: ({ topic }) => topic, cut: 'never' },
  { title: 'SUBJECT', value: ({ data }) => textOf(data.name ?? data.toolName ?? data.tool), cut: 'never' },
  {
    title: 'EVENT',
    value: ({ data }) => textOf(outcomeOf(data) ?? data.eventType ?? changeOf(data).kind ?? data.health ?? data.status),
  },
  { title: 'DETAIL', value: ({ data }) => describeDetail(data), cut: 'first' },
];

/** How a tool call ended; undefined for other events. */
function outcomeOf({ eventType, outcome }: JsonObject): string | undefined {
  return eventType !== undefined && typeof outcome === 'string' ? outcome.toUpperCase() : undefined;
}

function changeOf({ change }: JsonObject): JsonObject {
  return isJsonObject(change) ? change : {};
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '-';
}

/** The members that no other column shows. */
function describeDetail({ timestamp: _time, name: _name, ...data }: JsonObject): string {
  const { kind: _kind, timestamp: _at, ...change } = changeOf(data);
  if (typeof data.errorMessage === 'string') return data.errorMessage;
  if (data.eventType !== undefined) return data.duration === undefined ? '' : `${JSON.stringify(data.duration)} ms`;
  const { change: _change, health: _health, tool: _tool, status: _status, ...others } = data;
  return Object.entries({ ...others, ...change })
    .map(([member, value]) => `${member} ${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join(', ');
}

/** The event stream of a service, which resumes after the last event. */
class ServiceEvents implements FollowedStream {
  readonly #context: Context;
  readonly #topics: string | undefined;
  readonly #onEvent: (event: ServiceEvent) => void;
  begun = false;
  listening = false;
  #lastId: string | undefined = undefined;

  constructor(context: Context, topics: string | undefined, onEvent: (event: ServiceEvent) => void) {
    this.#context = context;
    this.#topics = topics;
    this.#onEvent = onEvent;
  }

  async listen(signal: AbortSignal): Promise<void> {
    this.listening = false;
    const { host } = this.#context.options();
    // Connects again each time, because a login may have to be renewed.
    const client = await this.#context.connect();
    const headers = { accept: EVENT_STREAM, ...(this.#lastId !== undefined && { 'last-event-id': this.#lastId }) };
    const params = { query: { topics: this.#topics } };
    const stream = await unwrapStream(client.GET('/api/v1/events', { params, parseAs: 'stream', headers, signal }));
    const text = this.begun ? 'reconnected' : `following events at ${host}; press Ctrl-C to stop`;
    printStatus(this.#context, text);
    this.begun = true;
    this.listening = true;
    for await (const event of readEvents(stream)) this.#receive(event, host);
  }

  #receive({ id, event: topic = 'message', data: text }: ServerSentEvent, host: string): void {
    if (id !== undefined) this.#lastId = id;
    // An event without data only sets the resume position.
    if (text === '') return;
    const data = parseOrUndefined(text);
    if (!isJsonObject(data)) throw notManagementApi(host, ['unexpected data in the event stream']);
    if (topic !== 'missed') return this.#onEvent({ topic, data });
    const count = data.count === undefined ? 'some' : JSON.stringify(data.count);
    const topics = Array.isArray(data.topics) ? ` (${data.topics.join(', ')})` : '';
    printStatus(this.#context, `${count === '1' ? '1 event was' : `${count} events were`} missed${topics}`);
  }
}

function parseOrUndefined(text: string): unknown {
  try {
    return parseLossless(text);
  } catch {
    return undefined;
  }
}

/** Prints events of these topics until Ctrl-C or until the reader closes. Rejects like {@link followStream}. */
export async function followServiceEvents(
  context: Context,
  topics: string | undefined,
  delays?: ReconnectDelay,
): Promise<void> {
  const onEvent = context.output().lines(COLUMNS, ({ topic }) => topic);
  await followStream(context, new ServiceEvents(context, topics, onEvent), delays);
}

/** `sluice events`: follows the events of the service. */
export function eventsCommand(context: Context): Command {
  return new Command('events')
    .description('Follow tool calls, tasks and changes of forwards, services, evaluators and the registry')
    .option('--topics <topics>', `Comma-separated list of ${EVENT_TOPICS.join(', ')} (default: all)`, parseTopics)
    .addHelpText(
      'after',
      `
Examples:
  sluice events --topics forwards,services
  sluice events --output json | jq 'select(.topic == "registry").data'`,
    )
    .action(({ topics }: { readonly topics?: string }) => followServiceEvents(context, topics));
}

function parseTopics(text: string): string {
  for (const topic of text.split(',')) {
    if (EVENT_TOPICS.some((known) => known === topic.trim())) continue;
    throw new Failure(`--topics "${topic}": expected one or more of ${EVENT_TOPICS.join(', ')}`);
  }
  return text;
}
