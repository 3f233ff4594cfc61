import { Failure } from '../failure.ts';

const MIB = 2 ** 20;
const LF = 10;
const CR = 13;

/** Adds up what is held in memory at once as bytes arrive, and returns it. */
type Meter = (chunk: Uint8Array) => number;

/** What is done while an answer is read. */
export interface BodyReading {
  /** Put around each wait for the next piece. */
  readonly guard: <T>(work: Promise<T>) => Promise<T>;
  /** Told of a body that has become too large. */
  readonly onTooLarge: (failure: Failure) => void;
}

/**
 * The answer, with a body that fails with {@link Failure} once it is larger than `limit` bytes after decompression; in a
 * stream of events, once one of them is.
 */
export function limitResponse(response: Response, limit: number, from: string, reading: BodyReading): Response {
  const { body, status, statusText, headers } = response;
  if (body === null) return response;
  const events = headers.get('content-type')?.startsWith('text/event-stream') === true;
  const meter = events ? eventMeter() : bodyMeter();
  const reader: ReadableStreamDefaultReader<Uint8Array> = body.getReader();
  const bounded = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await reading.guard(reader.read());
        if (done) return controller.close();
        if (meter(value) <= limit) return controller.enqueue(value);
        const failure = new Failure(
          `${events ? 'an event' : 'the answer'} of ${from} is larger than ${limit / MIB} MiB`,
        );
        reading.onTooLarge(failure);
        await reader.cancel(failure).catch(() => undefined);
        throw failure;
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
  return new Response(bounded, { status, statusText, headers });
}

function bodyMeter(): Meter {
  let size = 0;
  return ({ length }) => {
    size += length;
    return size;
  };
}

/** Begins anew after each empty line. */
function eventMeter(): Meter {
  let size = 0;
  let line = 0;
  let before = 0;
  return (chunk) => {
    let largest = 0;
    for (const byte of chunk) {
      size += 1;
      if (byte !== LF && byte !== CR) line += 1;
      else if (byte !== LF || before !== CR) {
        largest = Math.max(largest, size);
        if (line === 0) size = 0;
        line = 0;
      }
      before = byte;
    }
    return Math.max(largest, size);
  };
}
