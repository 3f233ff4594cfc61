import { describe, expect, test } from 'vitest';
import { CodeExecution } from './code-execution.ts';
import type { CodeExecutionReply__Output } from './generated/codeexecution/CodeExecutionReply.ts';

type Reply = Partial<CodeExecutionReply__Output>;

function reply(given: Reply): CodeExecutionReply__Output {
  return { isError: false, content: [], outputType: 'STDOUT', status: 'PENDING', exitCode: 0, timestamp: 0, ...given };
}

/** An execution after these replies, and the effect of each. */
function after(...replies: Reply[]) {
  const execution = new CodeExecution();
  return { execution, taken: replies.map((given) => execution.apply(reply(given))) };
}

const PENDING: Reply = { outputType: 'STATUS', status: 'PENDING' };
const RUNNING: Reply = { outputType: 'STATUS', status: 'RUNNING' };

test('a regular stream completes, with its output and each state once', () => {
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
  expect(taken.flatMap(({ updates }) => updates)).toEqual(['RUNNING', 'a\nb']);
  expect(taken.some(({ statusIgnored: ignored }) => ignored)).toBe(false);
});

test('STDOUT and STDERR are the output, in order of arrival; STATUS and COMPLETION are not', () => {
  const { execution, taken } = after(
    { ...RUNNING, content: ['starting'] },
    { status: 'RUNNING', content: ['1'] },
    { status: 'RUNNING', outputType: 'STDERR', content: ['2', ''] },
    { status: 'COMPLETED', content: ['3'] },
    { status: 'COMPLETED', outputType: 'COMPLETION', content: ['done'] },
  );
  expect(execution.output).toEqual(['1', '2', '', '3']);
  expect(taken.flatMap(({ updates }) => updates)).toEqual(['starting', '1', '2', '3', 'done']);
});

describe('the result is an error', () => {
  test.each([
    ['FAILED', 'tool_error'],
    ['CANCELLED', 'cancelled'],
    ['TIMEOUT', 'timeout'],
  ] as const)('when the final status is %s', (status, errorType) => {
    const { execution } = after(RUNNING, { outputType: 'STDERR', status, content: ['bad'], exitCode: 1 });
    expect(execution.problem).toBe(`the execution ended as ${status} with exit code 1`);
    expect(execution.output).toEqual(['bad']);
    expect(execution.errorType).toBe(errorType);
  });

  test('when the exit code is not 0', () => {
    expect(after({ status: 'COMPLETED', exitCode: 3 }).execution.problem).toContain('exit code 3');
  });

  test.each<[string, Reply, Reply, number]>([
    ['is replaced by that of the following state', { status: 'RUNNING' }, { status: 'COMPLETED', content: ['x'] }, 0],
    ['is that of the last reply that has one', { status: 'COMPLETED' }, { status: 'COMPLETED', exitCode: 4 }, 4],
    ['is not replaced by a reply of the same state without one', { status: 'COMPLETED' }, { status: 'COMPLETED' }, 3],
  ])('an exit code that is not 0 %s', (_what, first, next, exitCode) => {
    const { problem } = after({ ...first, exitCode: 3 }, next).execution;
    expect(problem).toBe(exitCode === 0 ? undefined : `the execution ended as COMPLETED with exit code ${exitCode}`);
  });

  test('after an error reply, with its text, whatever follows', () => {
    const { execution } = after(
      { outputType: 'STDERR', status: 'RUNNING', isError: true, content: ['class not found'] },
      { status: 'COMPLETED', content: ['x'] },
    );
    expect(execution.problem).toBe('class not found');
    expect(execution.state).toBe('COMPLETED');
    expect(execution.output).toEqual(['class not found', 'x']);
  });

  test('but not if the stream ends before a final status', () => {
    expect(after(RUNNING, { status: 'RUNNING', content: ['x'] }).execution.problem).toBeUndefined();
  });
});

describe('an invalid status transition', () => {
  test('after a final state is ignored with its exit code, but not its output', () => {
    const { execution, taken } = after(
      { status: 'COMPLETED', content: ['a'] },
      { status: 'FAILED', outputType: 'STDERR', content: ['late'], exitCode: 1 },
    );
    expect(execution.state).toBe('COMPLETED');
    expect(execution.problem).toBeUndefined();
    expect(execution.output).toEqual(['a', 'late']);
    expect(taken.map(({ statusIgnored: ignored }) => ignored)).toEqual([false, true]);
  });

  test('after FAILED does not reset the failure', () => {
    const { execution, taken } = after({ status: 'FAILED', exitCode: 1 }, { status: 'COMPLETED', content: ['x'] });
    expect(execution.state).toBe('FAILED');
    expect(execution.problem).toContain('FAILED');
    expect(taken[1]?.statusIgnored).toBe(true);
  });
});

describe('the limit on output', () => {
  const MANY = 'its output has more than 200 bytes of JSON, with 64 bytes counted per text';

  test('cancels the execution when exceeded', () => {
    const execution = new CodeExecution(200);
    execution.apply(reply({ content: ['a'.repeat(50), 'b'] }));
    expect(() => execution.apply(reply({ content: ['c'.repeat(22)] }))).toThrow(MANY);
    expect(execution.output).toEqual(['a'.repeat(50), 'b']);
  });

  test('counts empty texts', () => {
    const execution = new CodeExecution(200);
    expect(() => execution.apply(reply({ content: ['', '', '', ''] }))).toThrow(MANY);
    expect(execution.output).toHaveLength(3);
  });

  test.each(['STATUS', 'COMPLETION'] as const)('counts error replies other than output: %s', (outputType) => {
    const execution = new CodeExecution(200);
    const bad = reply({ outputType, isError: true, content: ['bad'] });
    for (let number = 0; number < 2; number++) execution.apply(bad);
    expect(() => execution.apply({ ...bad, content: ['x'.repeat(3)] })).toThrow(MANY);
    expect(execution.problem).toBe('bad\nbad');
  });

  test('counts content that is only sent as progress', () => {
    const execution = new CodeExecution(200);
    const busy = reply({ outputType: 'STATUS', content: ['busy'] });
    for (let number = 0; number < 2; number++) execution.apply(busy);
    expect(() => execution.apply(busy)).toThrow(MANY);
    expect(execution.output).toEqual([]);
  });

  test('counts the JSON escapes of characters', () => {
    const execution = new CodeExecution(200);
    execution.apply(reply({ content: ['\u0001'.repeat(22)] }));
    expect(() => new CodeExecution(200).apply(reply({ content: ['\u0001'.repeat(23)] }))).toThrow(MANY);
  });

  test('is 64 MiB', () => {
    const execution = new CodeExecution();
    const quarter = 'x'.repeat(16 * 1024 * 1024 - 64);
    execution.apply(reply({ content: [quarter, quarter, quarter, quarter] }));
    expect(() => execution.apply(reply({ content: [''] }))).toThrow('more than 67108864 bytes of JSON');
  });
});

test('an error reply may have more texts than a function has arguments', () => {
  const execution = new CodeExecution();
  execution.apply(reply({ isError: true, content: Array.from({ length: 500_000 }, () => 'x') }));
  expect(execution.output).toHaveLength(500_000);
  expect(execution.problem).toHaveLength(999_999);
});

describe('unknown enumeration values', () => {
  // As reported by the library.
  const unnamed = (given: object): CodeExecutionReply__Output => Object.assign(reply({}), given);

  test('are ignored as status', () => {
    const execution = new CodeExecution();
    expect(execution.apply(unnamed({ status: 7, content: ['x'], exitCode: 3 }))).toEqual({
      updates: ['x'],
      statusIgnored: true,
    });
    expect([execution.state, execution.output, execution.problem]).toEqual(['PENDING', ['x'], undefined]);
  });

  test('are progress but not output as output type', () => {
    const execution = new CodeExecution();
    expect(execution.apply(unnamed({ outputType: 9, content: ['x'] }))).toEqual({
      updates: ['x'],
      statusIgnored: false,
    });
    expect(execution.output).toEqual([]);
  });

  test.each([-2_147_483_648, -1, 2_147_483_647])('an exit code of %i is an error', (exitCode) => {
    expect(after({ status: 'COMPLETED', exitCode, timestamp: -1 }).execution.problem).toContain(
      `exit code ${exitCode}`,
    );
  });
});
