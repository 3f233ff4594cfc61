import { randomBytes } from 'node:crypto';
import { TokenSealer } from '@sluice/protocol/seal';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { EventStore } from './event-store.ts';
import { streamTarget } from './fixtures/stream-target.ts';
import type { ClientStream, StreamOwner } from './resumable-streams.ts';

const key = randomBytes(32);
let store: EventStore;
beforeEach(() => {
  store = new EventStore(new TokenSealer(key), 'replica-a');
});
afterEach(() => store.close());

function ownerOf(id: string, user = 'u'): StreamOwner {
  return { id, holder: { namespace: 'n', name: user } };
}

/** Opens the stream of a response. */
function opened(session: string, idText: string, user?: string): ClientStream {
  const stream = store.open(ownerOf(session, user), idText);
  if (!stream) throw new Error('the id does not fit');
  return stream;
}

/** Returns the stream of an event id. */
function resumed(session: string, eventId: string) {
  const found = store.find(session, eventId);
  if (found.kind !== 'stream') throw new Error(`found ${found.kind}`);
  return found;
}

describe('a stream', () => {
  it('sends each message with its own id, and the messages after an id again on another connection', () => {
    const stream = opened('s', '7');
    const first = streamTarget();
    stream.attach(first);
    for (const text of ['one', 'two', 'three']) stream.send(text);
    expect(first.events().map(({ data }) => data)).toEqual(['one', 'two', 'three']);
    const [one, two] = first.events();
    first.leave();
    stream.send('four');

    const second = streamTarget();
    const found = resumed('s', one?.id ?? '');
    found.stream.attach(second, found.after);
    expect(second.events().map(({ data }) => data)).toEqual(['two', 'three', 'four']);
    expect(second.events()[0]?.id).toBe(two?.id);
    stream.end('five');
    expect(second.events().at(-1)?.data).toBe('five');
    expect(second.ended).toBe(true);
  });

  it('that ended while disconnected can be read to its end later', () => {
    const stream = opened('s', '7');
    const first = streamTarget();
    stream.attach(first);
    stream.sendInitialEventId();
    const [prime] = first.events();
    expect(prime?.data).toBe('');
    first.leave();
    stream.end('answer');
    const second = streamTarget();
    const { after } = resumed('s', prime?.id ?? '');
    stream.attach(second, after);
    expect(second.events().map(({ data }) => data)).toEqual(['answer']);
    expect(second.ended).toBe(true);
  });

  it('destroys an unread connection when it continues on another one, and ends others', () => {
    const stream = opened('s', '7');
    const [first, second, third] = [streamTarget(), streamTarget(), streamTarget()];
    stream.attach(first);
    stream.send('one');
    stream.attach(second);
    expect([first.ended, first.destroyed]).toEqual([true, false]);
    second.full = true;
    stream.send('two');
    stream.attach(third);
    expect([second.ended, second.destroyed]).toEqual([false, true]);
  });

  it('disconnects a client with a retry time', () => {
    const stream = opened('s', '7');
    const target = streamTarget();
    stream.attach(target);
    stream.disconnect(250);
    expect(target.events()).toEqual([{ data: '', id: expect.any(String), retry: 250 }]);
    expect(target.ended).toBe(true);
    expect(stream.hasEnded).toBe(false);
    stream.send('later');
    const second = streamTarget();
    const found = resumed('s', target.events()[0]?.id ?? '');
    found.stream.attach(second, found.after);
    expect(second.events().map(({ data }) => data)).toEqual(['later']);
  });

  it('without a connection stores only the latest messages, and never blocks its sender', () => {
    const stream = opened('s', '7');
    const first = streamTarget();
    stream.attach(first);
    stream.sendInitialEventId();
    first.leave();
    for (let number = 0; number < 2_000; number++) expect(stream.send(`${number} ${'x'.repeat(1_000)}`)).toBe(true);
    const second = streamTarget();
    stream.attach(second, 0);
    const numbers = second.events().map(({ data }) => Number(data.split(' ', 1)[0]));
    expect(numbers.at(-1)).toBe(1_999);
    expect(numbers.length).toBeGreaterThan(100);
    expect(numbers.length).toBeLessThan(300);
    expect(numbers).toEqual([...numbers].sort((a, b) => a - b));
  });

  it('that is resumed or closed does not retain a connection that is not read', () => {
    vi.useFakeTimers({ toFake: ['setTimeout'] });
    try {
      const stream = opened('s', '7');
      const [first, second] = [streamTarget(), streamTarget()];
      const cut = [first, second].map((target) => vi.spyOn(target, 'destroy'));
      stream.attach(first);
      stream.sendInitialEventId();
      stream.attach(second);
      stream.close();
      expect([first.ended, second.ended]).toEqual([true, true]);
      for (const destroyed of cut) expect(destroyed).not.toHaveBeenCalled();
      vi.advanceTimersByTime(2_000);
      for (const destroyed of cut) expect(destroyed).toHaveBeenCalledOnce();
    } finally {
      vi.useRealTimers();
    }
  });

  it('notifies a blocked sender when the connection drains or closes', () => {
    const stream = opened('s', '7');
    const target = streamTarget();
    stream.attach(target);
    target.full = true;
    let drained = 0;
    expect(stream.send('one')).toBe(false);
    stream.onDrain(() => drained++);
    target.drain();
    expect(drained).toBe(1);
    expect(stream.send('two')).toBe(false);
    stream.onDrain(() => drained++);
    target.leave();
    expect(drained).toBe(2);
  });

  it('is blocked and collects messages by its present connection alone', () => {
    const stream = opened('s', '7');
    const [first, second] = [streamTarget(), streamTarget()];
    stream.attach(first);
    stream.attach(second);
    const corks: string[] = [];
    for (const [name, target] of Object.entries({ first, second })) {
      Object.assign(target, { cork: () => corks.push(`cork ${name}`), uncork: () => corks.push(`uncork ${name}`) });
    }
    stream.cork(true);
    stream.cork(false);
    expect(corks).toEqual(['cork second', 'uncork second']);
    second.full = true;
    let drained = 0;
    expect(stream.send('one')).toBe(false);
    stream.onDrain(() => drained++);
    first.drain();
    expect(drained).toBe(0);
    second.drain();
    expect(drained).toBe(1);
  });
});

describe('an event id', () => {
  function idOf(session: string, idText: string): string {
    const target = streamTarget();
    const stream = opened(session, idText);
    stream.attach(target);
    stream.sendInitialEventId();
    return target.events()[0]?.id ?? '';
  }

  it('is valid in its session only', () => {
    const id = idOf('s', '7');
    expect(store.find('s', id).kind).toBe('stream');
    expect(store.find('t', id)).toEqual({ kind: 'foreign' });
    for (const forged of [
      '',
      '.',
      '.1',
      'abc.1',
      id.replace(/^./, (c) => (c === 'A' ? 'B' : 'A')),
      `${id}x`,
      id.slice(0, -2),
    ]) {
      expect(store.find('s', forged), forged).toEqual({ kind: 'foreign' });
    }
  });

  it('of another process still identifies the request without a response', () => {
    const id = idOf('s', '"r-1"');
    const notifications = streamTarget();
    const stream = store.open(ownerOf('s'));
    stream.attach(notifications);
    stream.sendInitialEventId();
    store.close();
    store = new EventStore(new TokenSealer(key), 'replica-b');
    expect(store.find('s', id)).toEqual({ kind: 'lost', idText: '"r-1"', restarted: true });
    expect(store.find('s', notifications.events()[0]?.id ?? '')).toEqual({
      kind: 'lost',
      idText: undefined,
      restarted: true,
    });
    expect(store.find('t', id)).toEqual({ kind: 'foreign' });
  });

  it('of a stream that has expired still identifies this process', () => {
    const id = idOf('s', '7');
    store.dropSession('s');
    const found = store.find('s', id);
    expect(found.kind === 'stream' ? 'still attached' : found).toBe('still attached');
    store.sweep(performance.now());
    const left = opened('s', '8');
    const target = streamTarget();
    left.attach(target);
    left.sendInitialEventId();
    target.leave();
    store.dropSession('s');
    expect(store.find('s', target.events()[0]?.id ?? '')).toEqual({ kind: 'lost', idText: '8', restarted: false });
    // Its sender may not end it: it stays removed.
    left.end('answer');
    expect(store.find('s', target.events()[0]?.id ?? '').kind).toBe('lost');
  });

  it('is not created for a request whose id is too long', () => {
    expect(store.open(ownerOf('s'), `"${'x'.repeat(200)}"`)).toBeUndefined();
  });
});

describe('the store', () => {
  it('removes the events of a fully read stream soon, the stream later, and an unresumed one last', () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    onTestFinished(() => void vi.useRealTimers());
    const read = opened('s', '1');
    const reader = streamTarget();
    read.attach(reader);
    read.sendInitialEventId();
    read.end('answer');
    const [first = '', last = ''] = reader.events().map(({ id }) => id);
    const find = (id: string) => store.find('s', id).kind;
    const left = opened('s', '2');
    const target = streamTarget();
    left.attach(target);
    left.sendInitialEventId();
    target.leave();
    const open = opened('s', '3');
    open.attach(streamTarget());
    const gone: string[] = [];
    left.onDropped = () => gone.push('left');
    const now = performance.now();
    store.sweep(now + 9_000);
    expect([store.size, find(first), find(last)]).toEqual([3, 'stream', 'complete']);
    store.sweep(now + 11_000);
    // That it has ended is known for longer.
    expect([store.size, read.bytes, find(first), find(last)]).toEqual([3, 0, 'lost', 'complete']);
    store.sweep(now + 89_000);
    expect(find(last)).toBe('complete');
    store.sweep(now + 91_000);
    expect([store.size, find(last)]).toEqual([2, 'lost']);
    expect(gone).toEqual([]);
    store.sweep(now + 5 * 60_000 + 1_000);
    expect(store.size).toBe(1);
    expect(gone).toEqual(['left']);
  });

  it('drops the oldest streams of an owner beyond its quota, and none of others', () => {
    const text = 'x'.repeat(250_000);
    const leave = (session: string, idText: string, user: string) => {
      const stream = opened(session, idText, user);
      const target = streamTarget();
      stream.attach(target);
      stream.sendInitialEventId();
      target.leave();
      stream.end(text);
      return target.events()[0]?.id ?? '';
    };
    const own = leave('b', '1', 'b');
    const many = Array.from({ length: 300 }, (_, number) => leave('a', String(number), 'a'));
    expect(store.find('b', own).kind).toBe('stream');
    const latest = many.findIndex((id) => store.find('a', id).kind === 'stream');
    expect(latest).toBeGreaterThan(30);
    const another = leave('b', '2', 'b');
    expect([store.find('b', own).kind, store.find('b', another).kind]).toEqual(['stream', 'stream']);
    expect(store.find('a', many[latest] ?? '').kind).toBe('stream');
    expect(store.find('a', many[latest - 1] ?? '')).toMatchObject({ kind: 'lost', idText: String(latest - 1) });
    expect(store.find('a', many.at(-1) ?? '').kind).toBe('stream');
  });

  it('drops a connected stream without its client noticing, until the connection closes', () => {
    store.close();
    store = new EventStore(new TokenSealer(key), 'replica-a', 10_000);
    const stream = opened('a', '1', 'a');
    const target = streamTarget();
    stream.attach(target);
    stream.send('x'.repeat(8_000));
    const left: string[] = [];
    stream.onDropped = () => left.push('a');
    const other = opened('b', '1', 'b');
    other.attach(streamTarget());
    other.send('x'.repeat(2_000));
    expect([store.size, left]).toEqual([1, []]);
    stream.send('later');
    stream.disconnect(100);
    expect(target.events().map(({ data }) => data.length)).toEqual([8_000, 5]);
    expect(target.ended).toBe(false);
    expect(store.find('a', target.events()[0]?.id ?? '').kind).toBe('lost');
    target.leave();
    expect(left).toEqual(['a']);
    stream.end('answer');
    expect([store.size, left]).toEqual([1, ['a']]);
  });

  it('limits the size of all streams and drops the longest disconnected ones first', () => {
    const text = 'x'.repeat(200 * 1024);
    const ids: string[] = [];
    for (let number = 0; number < 500; number++) {
      const stream = opened('s', String(number));
      const target = streamTarget();
      stream.attach(target);
      stream.sendInitialEventId();
      target.leave();
      stream.end(text);
      ids.push(target.events()[0]?.id ?? '');
    }
    // 500 responses are 100 MB; the limit is 64 MB.
    expect(store.size).toBeLessThan(330);
    expect(store.size).toBeGreaterThan(150);
    expect(store.find('s', ids[0] ?? '')).toEqual({ kind: 'lost', idText: '0', restarted: false });
    expect(store.find('s', ids.at(-1) ?? '').kind).toBe('stream');
  });
});
