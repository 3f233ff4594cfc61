import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { InputTurns } from './input-turns.ts';

/** Turns of a clock that only moves when `spend` is called. */
function start() {
  let now = 1_000;
  const turns = new InputTurns(() => now);
  const spend = (milliseconds: number): void => {
    now += milliseconds;
  };
  return { turns, spend };
}

it('large input is handled at once while the time of the turn is not over, and again in the next turn', async () => {
  const { turns, spend } = start();
  for (let turn = 0; turn < 3; turn++) {
    expect(turns.begin()).toBe(true);
    spend(7);
    expect(turns.isOver).toBe(false);
    expect(turns.begin()).toBe(true);
    spend(2);
    expect(turns.isOver).toBe(true);
    expect(turns.begin()).toBe(false);
    await nextTurn();
  }
});

it('waiting connections continue in order of arrival, in one turn only as long as its time lasts', async () => {
  const { turns, spend } = start();
  const continued: number[] = [];
  expect(turns.begin()).toBe(true);
  spend(10);
  for (let connection = 0; connection < 6; connection++) {
    expect(turns.begin()).toBe(false);
    turns.wait(() => {
      continued.push(connection);
      spend(5);
    });
  }
  const byTurn: number[][] = [];
  for (let turn = 0; turn < 12; turn++) {
    await nextTurn();
    // Others wait behind them.
    if (continued.length < 6) expect(turns.begin()).toBe(false);
    if (continued.length > byTurn.flat().length) byTurn.push(continued.slice(byTurn.flat().length));
  }
  expect(byTurn).toEqual([
    [0, 1],
    [2, 3],
    [4, 5],
  ]);
  expect(turns.begin()).toBe(true);
});

it('a connection that waits again continues after the others', async () => {
  const { turns, spend } = start();
  const continued: string[] = [];
  const next = (name: string) => (): void => {
    continued.push(name);
    spend(10);
    if (continued.length < 4) turns.wait(next(name));
  };
  turns.begin();
  spend(10);
  turns.wait(next('a'));
  turns.wait(next('b'));
  for (let turn = 0; turn < 20; turn++) await nextTurn();
  expect(continued).toEqual(['a', 'b', 'a', 'b', 'a']);
});
