import { expect, it } from 'vitest';
import { limitResponse } from './limit-response.ts';

const MIB = 2 ** 20;

/** Reads a response of these chunks with a total limit of 1 MiB. */
async function read(type: string, pieces: readonly string[]) {
  const told: unknown[] = [];
  const encoder = new TextEncoder();
  const left = [...pieces];
  const body = new ReadableStream<Uint8Array>({
    pull: (controller) => {
      const piece = left.shift();
      if (piece === undefined) controller.close();
      else controller.enqueue(encoder.encode(piece));
    },
  });
  const response = new Response(body, { status: 202, headers: { 'content-type': type } });
  const bounded = limitResponse(response, MIB, 'http://there', {
    guard: (work) => work,
    onTooLarge: (failure) => told.push(failure.message),
  });
  const text = await bounded.text().catch((error: unknown) => error);
  return { text, told, status: bounded.status, left: left.length };
}

const HALF = 'x'.repeat(MIB / 2);

it('passes a small response through', async () => {
  expect(await read('application/json', [HALF, HALF])).toEqual({ text: HALF + HALF, told: [], status: 202, left: 0 });
});

it('aborts a large response early', async () => {
  const message = 'response from http://there is larger than 1 MiB';
  const { text, told, left } = await read('application/json', [HALF, HALF, 'x', HALF, HALF, HALF]);
  expect(text).toHaveProperty('message', message);
  expect(told).toEqual([message]);
  expect(left).toBeGreaterThan(0);
});

it.each(['\n', '\r\n', '\r'])('accepts any number of events, but no large one (lines end with %j)', async (end) => {
  const event = `data: ${HALF}${end}${end}`;
  const events = [event, event.slice(0, -1), event.slice(-1), event, event];
  expect(await read('text/event-stream', events)).toMatchObject({ text: events.join(''), told: [] });
  const data = `data: ${HALF}${end}`;
  const { told } = await read('text/event-stream', [event, data, data, data]);
  expect(told).toEqual(['event from http://there is larger than 1 MiB']);
});
