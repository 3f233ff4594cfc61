import { beforeEach, describe, expect, it } from 'vitest';
import { startedEvent } from './event.fixture.ts';
import { EventCursor } from './watch.ts';

const a = startedEvent('a');
const b = startedEvent('b');
const c = startedEvent('c');
const d = startedEvent('d');

let bookmark: EventCursor;
beforeEach(() => {
  bookmark = new EventCursor();
});

describe('after a gap', () => {
  it('reports missed events, oldest first, as complete when the last event is still available', () => {
    bookmark.startAfter(undefined);
    expect(bookmark.advance(a)).toBe(true);
    expect(bookmark.catchUp([d, c, b, a])).toEqual({ events: [b, c, d], complete: true });
    expect(bookmark.catchUp([d, c, b, a])).toEqual({ events: [], complete: true });
  });

  it('reads an event in list and stream once', () => {
    bookmark.startAfter(a);
    expect(bookmark.catchUp([c, b, a])).toMatchObject({ events: [b, c] });
    expect([bookmark.advance(b), bookmark.advance(c)]).toEqual([false, false]);
    expect(bookmark.catchUp([c, b, a])).toEqual({ events: [], complete: true });
    expect(bookmark.advance(d)).toBe(true);
  });

  it('reports all available events as incomplete when the last event is gone', () => {
    bookmark.startAfter(a);
    expect(bookmark.catchUp([c, b])).toEqual({ events: [b, c], complete: false });
  });

  it('reports all available events as incomplete when nothing was read', () => {
    bookmark.startAfter(undefined);
    expect(bookmark.catchUp([])).toEqual({ events: [], complete: false });
    expect(bookmark.catchUp([b, a])).toEqual({ events: [a, b], complete: false });
  });

  it('distinguishes the two events of a call', () => {
    const ended = { ...a, eventType: 'COMPLETED' };
    bookmark.startAfter(a);
    expect(bookmark.catchUp([ended, a])).toEqual({ events: [ended], complete: true });
  });
});

describe('in the beginning', () => {
  it('the stream may send the newest earlier event', () => {
    bookmark.startAfter(b);
    expect([bookmark.advance(a), bookmark.advance(b)]).toEqual([true, true]);
  });

  it('the stream does not repeat the list', () => {
    bookmark.reset([b, a]);
    expect([bookmark.advance(a), bookmark.advance(b), bookmark.advance(c)]).toEqual([false, false, true]);
    expect(bookmark.catchUp([d, c, b, a])).toEqual({ events: [d], complete: true });
  });
});
