import { describe, expect, it } from 'vitest';
import {
  EventStreamDecoder,
  EventTooLargeError,
  encodeEvent,
  LARGE_EVENT_BYTES,
  type ServerSentEvent,
  sendableId,
} from './event-stream.ts';

function decodeChunks(chunks: Iterable<Buffer>, maxEventBytes?: number) {
  const events: ServerSentEvent[] = [];
  const errors: EventTooLargeError[] = [];
  const decoder = new EventStreamDecoder(
    { onEvent: (event) => events.push(event), onEventError: (error) => errors.push(error) },
    maxEventBytes,
  );
  for (const chunk of chunks) decoder.write(chunk);
  return { events, errors, decoder };
}

function decode(...chunks: string[]) {
  return decodeChunks(chunks.map((chunk) => Buffer.from(chunk)));
}

describe('EventStreamDecoder', () => {
  it('returns each event with its fields and the exact text of its data', () => {
    const { events } = decode('event: a\nid: 7\nretry: 1500\ndata: {"a": 1.0,  "b":"\\u00e9"}\n\ndata:x\n\n');
    expect(events).toEqual([{ event: 'a', id: '7', retry: 1500, data: '{"a": 1.0,  "b":"\\u00e9"}' }, { data: 'x' }]);
  });

  it('returns no type for the default one, and the last of several', () => {
    const types = ['message', '', 'messages', 'messag', 'a\nevent: message', 'message\nevent: a'];
    const { events } = decode(...types.flatMap((type) => [`event: ${type}\ndata\n\n`, `event:${type}\ndata\n\n`]));
    const expected = [undefined, undefined, 'messages', 'messag', undefined, 'a'];
    expect(events.map(({ event }) => event)).toEqual(expected.flatMap((event) => [event, event]));
  });

  it('joins data lines by LF, removes one leading space and keeps the others', () => {
    expect(decode('data: a\ndata:  b\ndata\ndata:\ndata: c\n\n').events).toEqual([{ data: 'a\n b\n\n\nc' }]);
  });

  it('ignores comments, unknown fields and names with a known prefix', () => {
    expect(decode(': ping\n:\nfoo: bar\ndatabase: x\ndat: x\nidx: 9\nevents: x\n\ndata: y\n\n').events).toEqual([
      { data: 'y' },
    ]);
  });

  it('returns empty data, also for a block with only an id or a retry, but not for others', () => {
    const { events } = decode('id: 1\ndata:\n\n', 'event: x\nid: 2\n\nretry: 10\n\n', 'event: lost\n\n', 'data: z\n\n');
    expect(events).toEqual([{ id: '1', data: '' }, { id: '2', data: '' }, { retry: 10, data: '' }, { data: 'z' }]);
  });

  it('ignores an id with NUL and a retry that is not a number', () => {
    const { events } = decode('id: a\0b\nretry: 1s\ndata: x\n\n');
    expect(events).toEqual([{ data: 'x' }]);
  });

  it('drops the incomplete event at the end of the stream', () => {
    expect(decode('data: whole\n\ndata: half\n').events).toEqual([{ data: 'whole' }]);
  });

  it('reads the same events for all chunk boundaries and line ends', () => {
    const expected = [
      { id: 'é', data: '{"text":"naïve 世界 👩‍🚀"}\nsecond: line' },
      { data: '' },
      { retry: 3, data: 'end' },
    ];
    for (const end of ['\n', '\r\n', '\r']) {
      const lines = [
        '\uFEFFevent: message',
        ': comment 世',
        'id: é',
        'data: {"text":"naïve 世界 👩‍🚀"}',
        'data: second: line',
        '',
        'data',
        '',
        '',
        'retry: 3',
        'data: end',
        '',
        '',
      ];
      const bytes = Buffer.from(lines.join(end));
      expect(decodeChunks([bytes]).events).toEqual(expected);
      expect(decodeChunks([...bytes].map((byte) => Buffer.from([byte]))).events).toEqual(expected);
      for (let at = 1; at < bytes.length; at++) {
        expect(decodeChunks([bytes.subarray(0, at), bytes.subarray(at)]).events, `split at ${at}`).toEqual(expected);
      }
    }
  });

  it('does not wait for an LF after a CR', () => {
    const { events, decoder } = decode('data: now\r\n\r');
    expect(events).toEqual([{ data: 'now' }]);
    decoder.write(Buffer.from('\ndata: next\r\n\r\n'));
    expect(events).toEqual([{ data: 'now' }, { data: 'next' }]);
  });

  it('reports an oversized event once and then nothing more', () => {
    for (const chunks of [
      ['data: ok\n\n', `data: ${'x'.repeat(60)}`, 'x'.repeat(60), '\n\ndata: late\n\n'],
      ['data: ok\n\n', `${`data: ${'x'.repeat(30)}\n`.repeat(4)}\ndata: late\n\n`],
      ['data: ok\n\n', `: ${'x'.repeat(120)}`, '\n\ndata: late\n\n'],
      ['data: ok\n\n', `${'data\n'.repeat(20)}\ndata: late\n\n`],
    ]) {
      const { events, errors } = decodeChunks(
        chunks.map((chunk) => Buffer.from(chunk)),
        100,
      );
      expect(events).toEqual([{ data: 'ok' }]);
      expect(errors).toHaveLength(1);
      expect(errors[0]).toBeInstanceOf(EventTooLargeError);
    }
  });

  it('applies the limit to each event separately', () => {
    const { events, errors } = decodeChunks([Buffer.from(`data: ${'x'.repeat(80)}\n\n`.repeat(50))], 100);
    expect(events).toHaveLength(50);
    expect(errors).toEqual([]);
  });

  it('calls no callbacks after stop, not even for the rest of the chunk', () => {
    const events: ServerSentEvent[] = [];
    const decoder = new EventStreamDecoder({
      onEvent: (event) => {
        events.push(event);
        decoder.stop();
      },
      onEventError: () => expect.unreachable(),
    });
    decoder.write(Buffer.from('data: 1\n\ndata: 2\n\n'));
    decoder.write(Buffer.from('data: 3\n\n'));
    expect(events).toEqual([{ data: '1' }]);
  });

  it('passes the data of large events on as they arrive, for all chunk boundaries and line ends', () => {
    const line = (bytes: number, character = 'x') => character.repeat(bytes);
    const events = [
      [line(10), line(200_000, 'é'), '', line(10)],
      [line(70_000)],
      [line(40_000), line(40_000)],
      [line(10)],
      ['', line(66_000)],
      [line(LARGE_EVENT_BYTES - 100)],
    ];
    for (const lineEnd of ['\n', '\r\n', '\r']) {
      const text = events.map(
        (lines, at) => `id: ${at}${lineEnd}${lines.map((data) => `data: ${data}${lineEnd}`).join('')}${lineEnd}`,
      );
      const bytes = Buffer.from(`\ufeff${text.join('')}`);
      for (const size of [bytes.length, 65_536, 65_535, 1_000, 7]) {
        const seen: string[] = [];
        let large: Buffer[] = [];
        const decoder = new EventStreamDecoder({
          onEvent: ({ id, data }) => seen.push(`${id} small ${data}`),
          onEventError: (error) => seen.push(error.message),
          onLargeData: (data) => large.push(data),
          onLargeEvent: ({ id }) => {
            seen.push(`${id} large ${Buffer.concat(large)}`);
            large = [];
          },
        });
        for (let at = 0; at < bytes.length; at += size) decoder.write(Buffer.from(bytes.subarray(at, at + size)));
        const kind = (data: string) => (Buffer.byteLength(data) > LARGE_EVENT_BYTES ? 'large' : 'small');
        expect(seen).toEqual(events.map((lines, at) => `${at} ${kind(lines.join('\n'))} ${lines.join('\n')}`));
      }
    }
  });

  it('applies the limit to large events too', () => {
    const errors: Error[] = [];
    let passed = 0;
    const decoder = new EventStreamDecoder(
      {
        onEvent: () => undefined,
        onEventError: (error) => errors.push(error),
        onLargeData: ({ length }) => {
          passed += length;
        },
      },
      1_000_000,
    );
    for (let chunk = 0; chunk < 200; chunk++)
      decoder.write(Buffer.from(`${chunk === 0 ? 'data: ' : ''}${'x'.repeat(10_000)}`));
    expect(errors).toHaveLength(1);
    expect(passed).toBeLessThanOrEqual(1_000_000);
  });

  it('decodes a large event in tiny chunks in linear time', () => {
    const text = 'x'.repeat(4_000_000);
    const bytes = Buffer.from(`data: ${text}\n\n`);
    const chunks = Array.from({ length: Math.ceil(bytes.length / 16) }, (_, n) => bytes.subarray(n * 16, n * 16 + 16));
    const started = performance.now();
    const { events } = decodeChunks(chunks);
    expect(events[0]?.data).toBe(text);
    // Quadratic behavior would take a minute.
    expect(performance.now() - started).toBeLessThan(10_000);
  });
});

describe('sendableId', () => {
  it('accepts ids that fit a header, up to a length', () => {
    for (const id of ['7', 'a b', '!~', 'x'.repeat(4096)]) expect(sendableId(id)).toBe(id);
    for (const id of ['', ' a', 'a ', 'naïve', 'a\tb', 'x'.repeat(4097)]) expect(sendableId(id)).toBeUndefined();
  });
});

describe('encodeEvent', () => {
  it('writes what the decoder reads', () => {
    const events: ServerSentEvent[] = [
      { data: '{"a":1}' },
      { event: 'x', id: 'x-1', retry: 0, data: 'a\nb\n' },
      { data: '' },
    ];
    expect(decode(events.map(encodeEvent).join('')).events).toEqual(events);
  });

  it('rejects ids and types that would forge other fields', () => {
    expect(() => encodeEvent({ data: '', id: 'a\ndata: forged' })).toThrow(RangeError);
    expect(() => encodeEvent({ data: '', event: 'a\rid: forged' })).toThrow(RangeError);
  });
});
