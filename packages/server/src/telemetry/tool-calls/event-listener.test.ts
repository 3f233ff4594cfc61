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
  /** A listener that reads when it is told to, unless it is slow. */
  const listen = (slow = false) => {
    const heard: string[] = [];
    const said: string[] = [];
    const read = (): void => {
      for (let next = listening.next(); next; next = listening.next()) heard.push(next.identity.toolName);
    };
    const listening = events.listen({
      ready() {
        said.push('ready');
        if (!slow) read();
      },
      lost: () => void said.push('lost'),
    });
    return { heard, said, read, close: () => listening.close() };
  };
  return { send, listen };
}

test('a listener is told of events from then on, in their order, once per turn', async () => {
  const { send, listen } = start();
  send(2);
  const one = listen();
  const other = listen();
  send(2);
  expect([one.heard, one.said]).toEqual([[], []]);
  await nextTurn();
  send(1);
  await nextTurn();
  for (const { heard, said } of [one, other]) {
    expect(heard).toEqual(['2', '3', '4']);
    expect(said).toEqual(['ready', 'ready']);
  }
});

test('a listener that was told and has not read is not told again until it has', async () => {
  const { send, listen } = start();
  const { said, heard, read } = listen(true);
  for (let turn = 0; turn < 3; turn++) {
    send(1);
    await nextTurn();
  }
  expect(said).toEqual(['ready']);
  read();
  expect(heard).toEqual(['0', '1', '2']);
  send(1);
  await nextTurn();
  expect(said).toEqual(['ready', 'ready']);
});

test('a listener that is 1000 events behind can still have them all; with one more it is told so and dropped', async () => {
  const { send, listen } = start();
  const patient = listen(true);
  const slow = listen(true);
  send(1000);
  await nextTurn();
  patient.read();
  expect([patient.heard.length, patient.heard[0]]).toEqual([1000, '0']);
  expect(slow.said).toEqual(['ready']);
  send(1);
  await nextTurn();
  expect(slow.said).toEqual(['ready', 'lost']);
  slow.read();
  expect(slow.heard).toEqual([]);
  expect(patient.said).toEqual(['ready', 'ready']);
  send(2000);
  expect(slow.said).toEqual(['ready', 'lost']);
});

test('a listener that reads loses nothing, however many events come in one turn', async () => {
  const { send, listen } = start();
  const { heard, said } = listen();
  send(3500);
  await nextTurn();
  expect(heard).toEqual(Array.from({ length: 3500 }, (_, at) => `${at}`));
  expect(said).not.toContain('lost');
});

test('a listener that has left is told nothing, and the others are', async () => {
  const { send, listen } = start();
  const one = listen();
  const other = listen();
  send(1);
  one.close();
  await nextTurn();
  send(1);
  await nextTurn();
  expect([one.heard, one.said]).toEqual([[], []]);
  expect(other.heard).toEqual(['0', '1']);
});
