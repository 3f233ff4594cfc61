import { beforeEach, describe, expect, it } from 'vitest';
import { startedEvent } from './event.fixture.ts';
import { EventCursor } from './watch.ts';

const a = startedEvent('a');
const b = startedEvent('b');
const c = startedEvent('c');
const d = startedEvent('d');

let cursor: EventCursor;
beforeEach(() => {
  cursor = new EventCursor();
});

describe('after a gap', () => {
  it('reports missed events, oldest first, as complete when the last event is still available', () => {
    cursor.startAfter(undefined);
    expect(cursor.advance(a)).toBe(true);
    expect(cursor.catchUp([d, c, b, a])).toEqual({ events: [b, c, d], complete: true });
    expect(cursor.catchUp([d, c, b, a])).toEqual({ events: [], complete: true });
  });

  it('reads an event in list and stream once', () => {
    cursor.startAfter(a);
    expect(cursor.catchUp([c, b, a])).toMatchObject({ events: [b, c] });
    expect([cursor.advance(b), cursor.advance(c)]).toEqual([false, false]);
    expect(cursor.catchUp([c, b, a])).toEqual({ events: [], complete: true });
    expect(cursor.advance(d)).toBe(true);
  });

  it('reports all available events as incomplete when the last event is gone', () => {
    cursor.startAfter(a);
    expect(cursor.catchUp([c, b])).toEqual({ events: [b, c], complete: false });
  });

  it('reports all available events as incomplete when nothing was read', () => {
    cursor.startAfter(undefined);
    expect(cursor.catchUp([])).toEqual({ events: [], complete: false });
    expect(cursor.catchUp([b, a])).toEqual({ events: [a, b], complete: false });
  });

  it('distinguishes the two events of a call', () => {
    const ended = { ...a, eventType: 'COMPLETED' };
    cursor.startAfter(a);
    expect(cursor.catchUp([ended, a])).toEqual({ events: [ended], complete: true });
  });
});

describe('at the start', () => {
  it('the stream may send the newest earlier event', () => {
    cursor.startAfter(b);
    expect([cursor.advance(a), cursor.advance(b)]).toEqual([true, true]);
  });

  it('the stream does not repeat the list', () => {
    cursor.reset([b, a]);
    expect([cursor.advance(a), cursor.advance(b), cursor.advance(c)]).toEqual([false, false, true]);
    expect(cursor.catchUp([d, c, b, a])).toEqual({ events: [d], complete: true });
  });
});
