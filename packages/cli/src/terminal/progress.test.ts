import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { createProgress } from './progress.ts';
import type { TerminalOutput } from './terminal.ts';

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

function screen(isTerminal: boolean) {
  const written: string[] = [];
  const made: TerminalOutput = {
    isTerminal,
    columns: isTerminal ? 20 : undefined,
    write: (text) => void written.push(text),
    closed: new AbortController().signal,
  };
  return { screen: made, written };
}

/** Reports a number every 10 ms for three seconds. */
function work(tell: (line: string) => void): void {
  for (let at = 0; at < 300; at += 1) {
    vi.advanceTimersByTime(10);
    tell(`done ${at}`);
  }
}

it('updates one line on a terminal at a limited rate and erases it at the end', () => {
  const { screen: terminal, written } = screen(true);
  const progress = createProgress(terminal, false);
  work(progress.update);
  progress.end();
  expect(written).toHaveLength(31);
  expect(written[0]).toBe('\r\u001b[Kdone 9');
  expect(written.at(-1)).toBe('\r\u001b[K');
});

it('truncates the line to the terminal and sanitizes it', () => {
  const { screen: terminal, written } = screen(true);
  const progress = createProgress(terminal, false);
  vi.advanceTimersByTime(1000);
  progress.update('\u001b[2J a line that is too long');
  expect(written).toEqual(['\r\u001b[K\\u001b[2J a line t…']);
});

it.each([
  ['elsewhere', false, false],
  ['on a terminal that gets no control sequences', true, true],
])('prints a line per second %s', (_where, isTerminal, plain) => {
  const { screen: terminal, written } = screen(isTerminal);
  const progress = createProgress(terminal, plain);
  work(progress.update);
  progress.end();
  expect(written).toEqual(['done 99\n', 'done 199\n', 'done 299\n']);
});

it('prints nothing for a quick command', () => {
  const { screen: terminal, written } = screen(true);
  const progress = createProgress(terminal, false);
  progress.update('done');
  progress.end();
  expect(written).toEqual([]);
});
