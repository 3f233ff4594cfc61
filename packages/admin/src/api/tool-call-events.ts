import { TOOL_CALL_EVENT_CAPACITY, type ToolCallEvent } from '@sluice/contract';
import { unwrap } from '@sluice/contract/client';
import { useEffect, useState } from 'react';
import { useApi } from './api.ts';
import type { EventStream } from './event-stream.ts';

/** Time after which stored events that could not be loaded are requested again. */
const RETRY_MS = 5_000;

/** Receives the tool-call events of the service. */
export interface ToolCallReceiver {
  /** Receives the stored events, newest first; all of them if `isComplete`. The clock of the browser is ahead by the offset. */
  load(stored: readonly ToolCallEvent[], isComplete: boolean, clockOffsetMs: number): void;
  /** Receives the events of the stream until the returned function is called. */
  follow(events: EventStream): () => void;
}

/** Passes the stored events and then those that happen to a receiver. Stored ones are loaded again when some were missed. */
export function useToolCallEvents(receiver: ToolCallReceiver): {
  /** Whether the stored events have been loaded once. */
  readonly isLoaded: boolean;
  readonly error: unknown;
  readonly reload: () => void;
} {
  const { client, events } = useApi();
  const [error, setError] = useState<unknown>();
  const [isLoaded, setLoaded] = useState(false);
  const [attempt, setAttempt] = useState(0);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another attempt loads again
  useEffect(() => {
    const canceled = new AbortController();
    let retry: ReturnType<typeof setTimeout> | undefined;
    const load = async (): Promise<void> => {
      clearTimeout(retry);
      const query = { limit: String(TOOL_CALL_EVENT_CAPACITY) };
      try {
        const call = client.GET('/api/v1/tool-calls', { params: { query }, signal: canceled.signal });
        const stored = await unwrap(call);
        const time = Date.parse((await call).response.headers.get('date') ?? '');
        const clockOffsetMs = Number.isNaN(time) ? 0 : Date.now() - time;
        receiver.load(stored, stored.length < TOOL_CALL_EVENT_CAPACITY, clockOffsetMs);
        setError(undefined);
        setLoaded(true);
      } catch (reason) {
        if (canceled.signal.aborted) return;
        setError(reason);
        retry = setTimeout(() => void load(), RETRY_MS);
      }
    };
    // Follows first, so that no call is missed in between.
    const stops = [receiver.follow(events), events.listen('missed', () => void load())];
    void load();
    return () => {
      canceled.abort();
      clearTimeout(retry);
      for (const stop of stops) stop();
    };
  }, [client, events, receiver, attempt]);
  return { isLoaded, error, reload: () => setAttempt(attempt + 1) };
}
