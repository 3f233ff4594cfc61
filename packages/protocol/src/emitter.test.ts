import { expect, test } from 'vitest';
import { Emitter } from './emitter.ts';

/** Emitter whose subscribers are recorded by name. */
function recorded() {
  const emitter = new Emitter<number>();
  const received: string[] = [];
  const subscribe = (name: string) => emitter.subscribe((payload) => received.push(`${name} ${payload}`));
  return { emitter, received, subscribe };
}

test('all subscribers receive an event, in the order of their subscriptions', () => {
  const { emitter, received, subscribe } = recorded();
  emitter.emit(0);
  subscribe('a');
  subscribe('b');
  emitter.emit(1);
  expect(received).toEqual(['a 1', 'b 1']);
});

test('a function that has subscribed twice is called twice, and each subscription ends by itself', () => {
  const emitter = new Emitter();
  let count = 0;
  const subscriber = () => void count++;
  const stop = emitter.subscribe(subscriber);
  emitter.subscribe(subscriber);
  emitter.emit();
  expect(count).toBe(2);
  stop();
  stop();
  emitter.emit();
  expect(count).toBe(3);
});

test('a subscriber that was removed while an event is emitted is not called any more', () => {
  const { emitter, received, subscribe } = recorded();
  emitter.subscribe(() => stop());
  const stop = subscribe('a');
  subscribe('b');
  emitter.emit(1);
  expect(received).toEqual(['b 1']);
});

test('a subscriber that was added while an event is emitted receives the next one', () => {
  const { emitter, received, subscribe } = recorded();
  const stop = emitter.subscribe(() => {
    stop();
    subscribe('a');
  });
  emitter.emit(1);
  expect(received).toEqual([]);
  emitter.emit(2);
  expect(received).toEqual(['a 2']);
});

test('an event that is emitted by a subscriber is received by all', () => {
  const { emitter, received, subscribe } = recorded();
  emitter.subscribe((payload) => {
    if (payload === 1) emitter.emit(2);
  });
  subscribe('a');
  emitter.emit(1);
  expect(received).toEqual(['a 2', 'a 1']);
});

test('an error of a subscriber affects neither others nor the caller, and is uncaught', async () => {
  const { emitter, received, subscribe } = recorded();
  const uncaught = new Promise((resolve) => {
    // The test runner's own listeners are restored at the end.
    const others = process.listeners('uncaughtException');
    process.removeAllListeners('uncaughtException');
    process.once('uncaughtException', (error) => {
      for (const other of others) process.on('uncaughtException', other);
      resolve(error);
    });
  });
  emitter.subscribe(() => {
    throw new Error('a subscriber failed');
  });
  subscribe('a');
  emitter.emit(1);
  expect(received).toEqual(['a 1']);
  expect(await uncaught).toMatchObject({ message: 'a subscriber failed' });
});
