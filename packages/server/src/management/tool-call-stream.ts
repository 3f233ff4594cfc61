import { Readable } from 'node:stream';
import type { LongStream } from '../answer/long-streams.ts';
import type { Listening, ToolCallListener } from '../telemetry/tool-calls/event-listener.ts';
import type { ToolCallEvents } from '../telemetry/tool-calls/tool-call-events.ts';
import { eventOf, type ToolCallRecord } from '../telemetry/tool-calls/tool-call-record.ts';

/**
 * What one client is told of tool calls as they go on, as server-sent events (decisions 6). It is read as fast as its client
 * reads it. It breaks off when the client is too far behind, so that the client knows that it missed something.
 */
export class ToolCallStream extends Readable implements LongStream, ToolCallListener {
  readonly #listening: Listening;

  constructor(events: Pick<ToolCallEvents, 'listen'>) {
    super();
    this.#listening = events.listen(this);
    // The client is to have its head before something happens.
    this.keepAlive();
  }

  override _read(): void {
    this.ready();
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#listening.close();
    done(error);
  }

  ready(): void {
    while (this.readableLength < this.readableHighWaterMark) {
      const record = this.#listening.next();
      if (!record) return;
      this.push(textOf(record));
    }
  }

  lost(): void {
    this.destroy();
  }

  keepAlive(): void {
    // A client that has not read what there is needs no sign of life.
    if (this.readableLength === 0) this.push(':\n\n');
  }

  end(): void {
    this.#listening.close();
    this.push(null);
  }
}

function textOf(record: ToolCallRecord): string {
  const event = eventOf(record);
  return `event: ${event.eventType}\nid: ${event.eventId}\ndata: ${JSON.stringify(event)}\n\n`;
}
