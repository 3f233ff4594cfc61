import { setTimeout as delay } from 'node:timers/promises';
import { EventStreamDecoder, type ServerSentEvent } from '@sluice/protocol/mcp/event-stream';
import { ReconnectDelay } from '@sluice/protocol/timing';
import type { Context } from '../context.ts';
import { IdleTimeoutFailure } from '../http/fetch.ts';
import { sanitizeLine } from '../terminal/text.ts';
import { explainError, isTransient } from './explain-error.ts';

/** After a connection that lasted this long, the retry delay starts again. */
const STABLE_CONNECTION_MS = 10_000;

/** An event stream that is read over any number of connections. */
export interface FollowedStream {
  /** Whether a connection was ever established. */
  readonly begun: boolean;
  /** Whether the latest connection was established. */
  readonly listening: boolean;
  /** Runs one connection. Resolves when the service closes the stream; rejects on failures and when aborted. */
  listen(ended: AbortSignal): Promise<void>;
}

/** Prints a status line to stderr. */
export function printStatus({ terminal }: Context, text: string): void {
  terminal.stderr.write(`sluice: ${sanitizeLine(text)}\n`);
}

/**
 * Reads a stream until Ctrl-C or until the reader of stdout closes. Reconnects after 1 s to 30 s when the service becomes
 * unavailable. Rejects when the first connection fails, and whenever a request is rejected.
 */
export async function followStream(
  context: Context,
  stream: FollowedStream,
  delays: ReconnectDelay = new ReconnectDelay(),
): Promise<void> {
  const { stdout, interrupted } = context.terminal;
  const { host } = context.options();
  const ended = AbortSignal.any([interrupted, stdout.closed]);
  let lastReason: string | undefined;
  while (!ended.aborted) {
    const since = performance.now();
    const reason = await stream.listen(ended).then(
      () => `${host} closed the stream`,
      (error: unknown) => {
        if (ended.aborted) return '';
        if (!stream.begun || !isTransient(error, host)) throw error;
        const isConnectionLost = stream.listening && !(error instanceof IdleTimeoutFailure);
        return isConnectionLost ? `the connection to ${host} was lost` : explainError(error, host).message;
      },
    );
    if (ended.aborted) return;
    // Report repeated failures once.
    if (stream.listening || reason !== lastReason) printStatus(context, `${reason} (retrying)`);
    lastReason = reason;
    if (stream.listening && performance.now() - since > STABLE_CONNECTION_MS) delays.reset();
    // Rejects when aborted.
    await delay(delays.next(), undefined, { signal: ended }).catch(() => undefined);
  }
}

/**
 * Yields the events of a stream (HTML standard, "Server-sent events") until it ends. Comments are ignored; an event with an
 * id only has no data. Closes the stream when the consumer stops.
 */
export async function* readEvents(stream: ReadableStream<Uint8Array>): AsyncGenerator<ServerSentEvent, void> {
  const received: ServerSentEvent[] = [];
  const decoder = new EventStreamDecoder({
    onEvent: (event) => received.push(event),
    onEventError: (error) => {
      throw error;
    },
  });
  for await (const { buffer, byteOffset, byteLength } of stream) {
    decoder.write(Buffer.from(buffer, byteOffset, byteLength));
    yield* received.splice(0);
  }
}
