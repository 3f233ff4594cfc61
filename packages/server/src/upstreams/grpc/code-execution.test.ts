import { describe, expect, test } from 'vitest';
import { CodeExecution } from './code-execution.ts';
import type { CodeExecutionReply__Output } from './generated/codeexecution/CodeExecutionReply.ts';

type Reply = Partial<CodeExecutionReply__Output>;

function reply(given: Reply): CodeExecutionReply__Output {
  return { isError: false, content: [], outputType: 'STDOUT', status: 'PENDING', exitCode: 0, timestamp: 0, ...given };
}

/** An execution that these replies were told of, and what was made of each. */
function after(...replies: Reply[]) {
  const execution = new CodeExecution();
  return { execution, taken: replies.map((given) => execution.take(reply(given))) };
}

const PENDING: Reply = { outputType: 'STATUS', status: 'PENDING' };
const RUNNING: Reply = { outputType: 'STATUS', status: 'RUNNING' };

test("a provider's usual stream ends well, with its output and each state told once", () => {
  const { execution, taken } = after(
    PENDING,
    PENDING,
    RUNNING,
    RUNNING,
    { status: 'COMPLETED', content: ['a', 'b'] },
    { outputType: 'COMPLETION', status: 'COMPLETED' },
  );
  expect(execution.state).toBe('COMPLETED');
  expect(execution.output).toEqual(['a', 'b']);
  expect(execution.problem).toBeUndefined();
  expect(taken.flatMap(({ news }) => news)).toEqual(['RUNNING', 'a\nb']);
  expect(taken.some(({ ignored }) => ignored)).toBe(false);
});

test('STDOUT and STDERR are the output, in the order in which they come; STATUS and COMPLETION are not', () => {
  const { execution, taken } = after(
    { ...RUNNING, content: ['starting'] },
    { status: 'RUNNING', content: ['1'] },
    { status: 'RUNNING', outputType: 'STDERR', content: ['2', ''] },
    { status: 'COMPLETED', content: ['3'] },
    { status: 'COMPLETED', outputType: 'COMPLETION', content: ['done'] },
  );
  expect(execution.output).toEqual(['1', '2', '', '3']);
  expect(taken.flatMap(({ news }) => news)).toEqual(['starting', '1', '2', '3', 'done']);
});

describe('the result is an error', () => {
  test.each(['FAILED', 'CANCELLED', 'TIMEOUT'] as const)('when the final status is %s', (status) => {
    const { execution } = after(RUNNING, { outputType: 'STDERR', status, content: ['bad'], exitCode: 1 });
    expect(execution.problem).toBe(`the execution ended as ${status} with exit code 1`);
    expect(execution.output).toEqual(['bad']);
  });

  test('when the exit code is not 0', () => {
    expect(after({ status: 'COMPLETED', exitCode: 3 }).execution.problem).toContain('exit code 3');
  });

  test.each<[string, Reply, Reply, number]>([
    ['is taken back by the state that follows', { status: 'RUNNING' }, { status: 'COMPLETED', content: ['x'] }, 0],
    ['is the last one that was said', { status: 'COMPLETED' }, { status: 'COMPLETED', exitCode: 4 }, 4],
    ['is not taken back by a reply of that state that says none', { status: 'COMPLETED' }, { status: 'COMPLETED' }, 3],
  ])('an exit code that is not 0 %s', (_what, first, next, exitCode) => {
    const { problem } = after({ ...first, exitCode: 3 }, next).execution;
    expect(problem).toBe(exitCode === 0 ? undefined : `the execution ended as COMPLETED with exit code ${exitCode}`);
  });

  test('when a reply says so, in its words, whatever comes after it', () => {
    const { execution } = after(
      { outputType: 'STDERR', status: 'RUNNING', isError: true, content: ['no such class'] },
      { status: 'COMPLETED', content: ['x'] },
    );
    expect(execution.problem).toBe('no such class');
    expect(execution.state).toBe('COMPLETED');
    expect(execution.output).toEqual(['no such class', 'x']);
  });

  test('not when the stream ends before a final status', () => {
    expect(after(RUNNING, { status: 'RUNNING', content: ['x'] }).execution.problem).toBeUndefined();
  });
});

describe('a status that the state cannot become', () => {
  test('after an end does not count, nor does its exit code; its output is kept', () => {
    const { execution, taken } = after(
      { status: 'COMPLETED', content: ['a'] },
      { status: 'FAILED', outputType: 'STDERR', content: ['late'], exitCode: 1 },
    );
    expect(execution.state).toBe('COMPLETED');
    expect(execution.problem).toBeUndefined();
    expect(execution.output).toEqual(['a', 'late']);
    expect(taken.map(({ ignored }) => ignored)).toEqual([false, true]);
  });

  test('after FAILED does not make it well again', () => {
    const { execution, taken } = after({ status: 'FAILED', exitCode: 1 }, { status: 'COMPLETED', content: ['x'] });
    expect(execution.state).toBe('FAILED');
    expect(execution.problem).toContain('FAILED');
    expect(taken[1]?.ignored).toBe(true);
  });
});

describe('what can be held', () => {
  const MANY = 'it put out more than 200 bytes of JSON, where each text counts for 64 more';

  test('is so many bytes of output, and what comes beyond ends the execution', () => {
    const execution = new CodeExecution(200);
    execution.take(reply({ content: ['a'.repeat(50), 'b'] }));
    expect(() => execution.take(reply({ content: ['c'.repeat(22)] }))).toThrow(MANY);
    expect(execution.output).toEqual(['a'.repeat(50), 'b']);
  });

  test('is no endless number of texts without a character', () => {
    const execution = new CodeExecution(200);
    expect(() => execution.take(reply({ content: ['', '', '', ''] }))).toThrow(MANY);
    expect(execution.output).toHaveLength(3);
  });

  test.each(['STATUS', 'COMPLETION'] as const)('counts error replies that are no output: %s', (outputType) => {
    const execution = new CodeExecution(200);
    const bad = reply({ outputType, isError: true, content: ['bad'] });
    for (let number = 0; number < 2; number++) execution.take(bad);
    expect(() => execution.take({ ...bad, content: ['x'.repeat(3)] })).toThrow(MANY);
    expect(execution.problem).toBe('bad\nbad');
  });

  test('counts what is told and not kept', () => {
    const execution = new CodeExecution(200);
    const busy = reply({ outputType: 'STATUS', content: ['busy'] });
    for (let number = 0; number < 2; number++) execution.take(busy);
    expect(() => execution.take(busy)).toThrow(MANY);
    expect(execution.output).toEqual([]);
  });

  test('counts what a character is in JSON', () => {
    const execution = new CodeExecution(200);
    execution.take(reply({ content: ['\u0001'.repeat(22)] }));
    expect(() => new CodeExecution(200).take(reply({ content: ['\u0001'.repeat(23)] }))).toThrow(MANY);
  });

  test('is 64 MiB', () => {
    const execution = new CodeExecution();
    const quarter = 'x'.repeat(16 * 1024 * 1024 - 64);
    execution.take(reply({ content: [quarter, quarter, quarter, quarter] }));
    expect(() => execution.take(reply({ content: [''] }))).toThrow('more than 67108864 bytes of JSON');
  });
});

test('an error reply of more texts than a function takes is taken', () => {
  const execution = new CodeExecution();
  execution.take(reply({ isError: true, content: Array.from({ length: 500_000 }, () => 'x') }));
  expect(execution.output).toHaveLength(500_000);
  expect(execution.problem).toHaveLength(999_999);
});

describe('numbers that the protocol has no name for', () => {
  // As the library gives them on.
  const unnamed = (given: object): CodeExecutionReply__Output => Object.assign(reply({}), given);

  test('as a status do not count', () => {
    const execution = new CodeExecution();
    expect(execution.take(unnamed({ status: 7, content: ['x'], exitCode: 3 }))).toEqual({ news: ['x'], ignored: true });
    expect([execution.state, execution.output, execution.problem]).toEqual(['PENDING', ['x'], undefined]);
  });

  test('as an output type are told, and no output', () => {
    const execution = new CodeExecution();
    expect(execution.take(unnamed({ outputType: 9, content: ['x'] }))).toEqual({ news: ['x'], ignored: false });
    expect(execution.output).toEqual([]);
  });

  test.each([-2_147_483_648, -1, 2_147_483_647])('an exit code of %i is an error', (exitCode) => {
    expect(after({ status: 'COMPLETED', exitCode, timestamp: -1 }).execution.problem).toContain(
      `exit code ${exitCode}`,
    );
  });
});
