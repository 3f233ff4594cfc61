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
  it('what came in it is told, oldest first, and nothing was missed when the last one read is still known', () => {
    bookmark.startAfter(undefined);
    expect(bookmark.advance(a)).toBe(true);
    expect(bookmark.catchUp([d, c, b, a])).toEqual({ events: [b, c, d], complete: true });
    expect(bookmark.catchUp([d, c, b, a])).toEqual({ events: [], complete: true });
  });

  it('an event that stands in the list and in the stream is read once, and where it was read stays known', () => {
    bookmark.startAfter(a);
    expect(bookmark.catchUp([c, b, a])).toMatchObject({ events: [b, c] });
    expect([bookmark.advance(b), bookmark.advance(c)]).toEqual([false, false]);
    expect(bookmark.catchUp([c, b, a])).toEqual({ events: [], complete: true });
    expect(bookmark.advance(d)).toBe(true);
  });

  it('all that is known is told, and something may have been missed, when the last one read is not known any more', () => {
    bookmark.startAfter(a);
    expect(bookmark.catchUp([c, b])).toEqual({ events: [b, c], complete: false });
  });

  it('all that is known is told, and something may have been missed, when nothing was read', () => {
    bookmark.startAfter(undefined);
    expect(bookmark.catchUp([])).toEqual({ events: [], complete: false });
    expect(bookmark.catchUp([b, a])).toEqual({ events: [a, b], complete: false });
  });

  it('the end of a call is not taken for its beginning', () => {
    const ended = { ...a, eventType: 'COMPLETED' };
    bookmark.startAfter(a);
    expect(bookmark.catchUp([ended, a])).toEqual({ events: [ended], complete: true });
  });
});

describe('in the beginning', () => {
  it('the newest event of before may be told by the stream, as it may have come after that was opened', () => {
    bookmark.startAfter(b);
    expect([bookmark.advance(a), bookmark.advance(b)]).toEqual([true, true]);
  });

  it('a list that was told is not told again by the stream', () => {
    bookmark.reset([b, a]);
    expect([bookmark.advance(a), bookmark.advance(b), bookmark.advance(c)]).toEqual([false, false, true]);
    expect(bookmark.catchUp([d, c, b, a])).toEqual({ events: [d], complete: true });
  });
});
