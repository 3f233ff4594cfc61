import { beforeEach, describe, expect, it } from 'vitest';
import { Bookmark } from './bookmark.ts';
import { startedEvent } from './event.fixture.ts';

const a = startedEvent('a');
const b = startedEvent('b');
const c = startedEvent('c');
const d = startedEvent('d');

let bookmark: Bookmark;
beforeEach(() => {
  bookmark = new Bookmark();
});

describe('after a gap', () => {
  it('what came in it is told, oldest first, and nothing was missed when the last one read is still known', () => {
    bookmark.beginAt(undefined);
    expect(bookmark.read(a)).toBe(true);
    expect(bookmark.catchUp([d, c, b, a])).toEqual({ events: [b, c, d], complete: true });
    expect(bookmark.catchUp([d, c, b, a])).toEqual({ events: [], complete: true });
  });

  it('an event that stands in the list and in the stream is read once, and where it was read stays known', () => {
    bookmark.beginAt(a);
    expect(bookmark.catchUp([c, b, a])).toMatchObject({ events: [b, c] });
    expect([bookmark.read(b), bookmark.read(c)]).toEqual([false, false]);
    expect(bookmark.catchUp([c, b, a])).toEqual({ events: [], complete: true });
    expect(bookmark.read(d)).toBe(true);
  });

  it('all that is known is told, and something may have been missed, when the last one read is not known any more', () => {
    bookmark.beginAt(a);
    expect(bookmark.catchUp([c, b])).toEqual({ events: [b, c], complete: false });
  });

  it('all that is known is told, and something may have been missed, when nothing was read', () => {
    bookmark.beginAt(undefined);
    expect(bookmark.catchUp([])).toEqual({ events: [], complete: false });
    expect(bookmark.catchUp([b, a])).toEqual({ events: [a, b], complete: false });
  });

  it('the end of a call is not taken for its beginning', () => {
    const ended = { ...a, eventType: 'COMPLETED' };
    bookmark.beginAt(a);
    expect(bookmark.catchUp([ended, a])).toEqual({ events: [ended], complete: true });
  });
});

describe('in the beginning', () => {
  it('the newest event of before may be told by the stream, as it may have come after that was opened', () => {
    bookmark.beginAt(b);
    expect([bookmark.read(a), bookmark.read(b)]).toEqual([true, true]);
  });

  it('a list that was told is not told again by the stream', () => {
    bookmark.readAll([b, a]);
    expect([bookmark.read(a), bookmark.read(b), bookmark.read(c)]).toEqual([false, false, true]);
    expect(bookmark.catchUp([d, c, b, a])).toEqual({ events: [d], complete: true });
  });
});
