import fc from 'fast-check';
import { expect, test } from 'vitest';
import { EventDataReader } from './event-data.ts';
import { EventStreamDecoder } from './event-stream.ts';

/** The data of all events of a stream that arrives in these chunks. */
function read(chunks: readonly Buffer[]): string[] {
  const events: string[] = [];
  let data: Buffer[] = [];
  const reader = new EventDataReader({
    onData: (bytes) => void data.push(Buffer.from(bytes)),
    onEventEnd: () => {
      events.push(Buffer.concat(data).toString());
      data = [];
    },
  });
  for (const chunk of chunks) reader.write(chunk);
  return events;
}

function decode(stream: Buffer): string[] {
  const events: string[] = [];
  const decoder = new EventStreamDecoder({
    onEvent: ({ data, id, retry }) => {
      // A block without data, of which only id and retry count.
      if (data !== '' || (id === undefined && retry === undefined)) events.push(data);
    },
    onEventError: (error) => {
      throw error;
    },
  });
  decoder.write(stream);
  return events;
}

test('reads the same data as the decoder of events, wherever chunks end', () => {
  const piece = fc.constantFrom(
    ...[
      'data',
      'data:',
      'data: ',
      'data:  x',
      'datax: y',
      'event: e',
      ':',
      '\n',
      '\n\n',
      '\r',
      '\r\n',
      '\r\n\r\n',
      'é',
      '{"a":1}',
    ],
  );
  fc.assert(
    fc.property(
      fc.boolean(),
      fc.array(piece, { maxLength: 30 }),
      fc.array(fc.nat(40), { maxLength: 8 }),
      (mark, pieces, cuts) => {
        const stream = Buffer.from(`${mark ? '\ufeff' : ''}${pieces.join('')}`);
        const ends = [...cuts.filter((cut) => cut <= stream.length), stream.length].sort((a, b) => a - b);
        const chunks = ends.map((end, index) => stream.subarray(ends[index - 1] ?? 0, end));
        expect(read(chunks)).toEqual(decode(stream));
      },
    ),
    { numRuns: 2_000 },
  );
});
