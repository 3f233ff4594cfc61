import { Failure } from '../failure.ts';

const MIB = 2 ** 20;
const LF = 10;
const CR = 13;

/** Adds a chunk and returns the current size of the buffered data. */
type Meter = (chunk: Uint8Array) => number;

/** Hooks while a body is read. */
export interface BodyReading {
  /** Wraps each wait for the next chunk. */
  readonly guard: <T>(work: Promise<T>) => Promise<T>;
  /** Called when the limit is exceeded. */
  readonly onTooLarge: (failure: Failure) => void;
}

/**
 * Limits the decompressed body of a response, or each event of an event stream, to `limit` bytes. The body fails with
 * {@link Failure} when it is larger. Archives have no limit: they are written to files.
 */
export function limitResponse(response: Response, limit: number, from: string, reading: BodyReading): Response {
  const { body, status, statusText, headers } = response;
  if (body === null) return response;
  const type = headers.get('content-type') ?? '';
  const events = type.startsWith('text/event-stream');
  const meter = type === 'application/gzip' ? () => 0 : events ? eventMeter() : bodyMeter();
  const reader: ReadableStreamDefaultReader<Uint8Array> = body.getReader();
  const bounded = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await reading.guard(reader.read());
        if (done) return controller.close();
        if (meter(value) <= limit) return controller.enqueue(value);
        const failure = new Failure(`${events ? 'event' : 'response'} from ${from} is larger than ${limit / MIB} MiB`);
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

/** Starts again after each empty line. */
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
