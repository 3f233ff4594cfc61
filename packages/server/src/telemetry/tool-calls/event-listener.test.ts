import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { DEFAULT_LOG_FILTER } from '../../app/config/environment.ts';
import { createLogger } from '../log.ts';
import { ToolCallEvents } from './events.ts';
import { identity } from './identities.fixture.ts';

function start() {
  const events = new ToolCallEvents(createLogger(DEFAULT_LOG_FILTER, () => {}));
  let sent = 0;
  const send = (count: number) => {
    for (const end = sent + count; sent < end; sent++)
      events.of(identity({ toolName: `${sent}` })).failed('UNKNOWN', '');
  };
  /** A listener that reads when notified, unless it is slow. */
  const listen = (slow = false) => {
    const heard: string[] = [];
    const notifications: string[] = [];
    const read = (): void => {
      for (let next = listening.next(); next; next = listening.next()) heard.push(next.identity.toolName);
    };
    const listening = events.ring.listen({
      ready() {
        notifications.push('ready');
        if (!slow) read();
      },
      overflow() {
        notifications.push('lost');
        listening.close();
      },
    });
    return { heard, notifications, read, close: () => listening.close() };
  };
  return { send, listen };
}

test('notifies a listener of new events in order, once per turn', async () => {
  const { send, listen } = start();
  send(2);
  const one = listen();
  const other = listen();
  send(2);
  expect([one.heard, one.notifications]).toEqual([[], []]);
  await nextTurn();
  send(1);
  await nextTurn();
  for (const { heard, notifications } of [one, other]) {
    expect(heard).toEqual(['2', '3', '4']);
    expect(notifications).toEqual(['ready', 'ready']);
  }
});

test('does not notify a listener again before it has read', async () => {
  const { send, listen } = start();
  const { notifications, heard, read } = listen(true);
  for (let turn = 0; turn < 3; turn++) {
    send(1);
    await nextTurn();
  }
  expect(notifications).toEqual(['ready']);
  read();
  expect(heard).toEqual(['0', '1', '2']);
  send(1);
  await nextTurn();
  expect(notifications).toEqual(['ready', 'ready']);
});

test('drops a listener that is more than 1000 events behind', async () => {
  const { send, listen } = start();
  const patient = listen(true);
  const slow = listen(true);
  send(1000);
  await nextTurn();
  patient.read();
  expect([patient.heard.length, patient.heard[0]]).toEqual([1000, '0']);
  expect(slow.notifications).toEqual(['ready']);
  send(1);
  await nextTurn();
  expect(slow.notifications).toEqual(['ready', 'lost']);
  slow.read();
  expect(slow.heard).toEqual([]);
  expect(patient.notifications).toEqual(['ready', 'ready']);
  send(2000);
  expect(slow.notifications).toEqual(['ready', 'lost']);
});

test('loses no events of a listener that reads', async () => {
  const { send, listen } = start();
  const { heard, notifications } = listen();
  send(3500);
  await nextTurn();
  expect(heard).toEqual(Array.from({ length: 3500 }, (_, at) => `${at}`));
  expect(notifications).not.toContain('lost');
});

test('does not notify a closed listener', async () => {
  const { send, listen } = start();
  const one = listen();
  const other = listen();
  send(1);
  one.close();
  await nextTurn();
  send(1);
  await nextTurn();
  expect([one.heard, one.notifications]).toEqual([[], []]);
  expect(other.heard).toEqual(['0', '1']);
});
