import { eventOf, type ToolCallRecord } from '../telemetry/tool-calls/tool-call-record.ts';

/**
 * What an event is in an event stream: made when it is first sent, shared by all streams, and there for as long as one of
 * them has it to send. Each stream on its own would hold up calls, and take memory, as many times as there are watchers.
 */
export class EventTexts {
  readonly #made = new WeakMap<ToolCallRecord, WeakRef<Buffer>>();

  of(record: ToolCallRecord): Buffer {
    const made = this.#made.get(record)?.deref();
    if (made) return made;
    const event = eventOf(record);
    const text = Buffer.from(`event: ${event.eventType}\nid: ${event.eventId}\ndata: ${JSON.stringify(event)}\n\n`);
    this.#made.set(record, new WeakRef(text));
    return text;
  }
}
