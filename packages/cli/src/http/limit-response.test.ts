import { expect, it } from 'vitest';
import { limitResponse } from './limit-response.ts';

const MIB = 2 ** 20;

/** Reads a response of these chunks with a total limit of 1 MiB. */
async function read(type: string, pieces: readonly string[]) {
  const reported: unknown[] = [];
  const encoder = new TextEncoder();
  const unread = [...pieces];
  const body = new ReadableStream<Uint8Array>({
    pull: (controller) => {
      const piece = unread.shift();
      if (piece === undefined) controller.close();
      else controller.enqueue(encoder.encode(piece));
    },
  });
  const response = new Response(body, { status: 202, headers: { 'content-type': type } });
  const bounded = limitResponse(response, MIB, 'http://there', {
    guard: (work) => work,
    onTooLarge: (failure) => reported.push(failure.message),
  });
  const text = await bounded.text().catch((error: unknown) => error);
  return { text, reported: reported, status: bounded.status, unread: unread.length };
}

const HALF = 'x'.repeat(MIB / 2);

it('passes a small response through', async () => {
  expect(await read('application/json', [HALF, HALF])).toEqual({
    text: HALF + HALF,
    reported: [],
    status: 202,
    unread: 0,
  });
});

it('aborts a large response early', async () => {
  const message = 'response from http://there is larger than 1 MiB';
  const { text, reported, unread } = await read('application/json', [HALF, HALF, 'x', HALF, HALF, HALF]);
  expect(text).toHaveProperty('message', message);
  expect(reported).toEqual([message]);
  expect(unread).toBeGreaterThan(0);
});

it.each(['\n', '\r\n', '\r'])('accepts any number of events, but no large one (lines end with %j)', async (end) => {
  const event = `data: ${HALF}${end}${end}`;
  const events = [event, event.slice(0, -1), event.slice(-1), event, event];
  expect(await read('text/event-stream', events)).toMatchObject({ text: events.join(''), reported: [] });
  const data = `data: ${HALF}${end}`;
  const { reported } = await read('text/event-stream', [event, data, data, data]);
  expect(reported).toEqual(['event from http://there is larger than 1 MiB']);
});
