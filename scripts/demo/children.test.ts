import { expect, onTestFinished, test } from 'vitest';
import { ChildProcesses } from './children.ts';

const program = (name: string, code: string) => ({
  name,
  args: ['-e', code],
  env: {},
  folder: '/',
  ready: (line: string) => (line === 'ready' ? name : undefined),
});

test('reports the exit of a ready program only', async () => {
  const children = new ChildProcesses();
  onTestFinished(() => children.stop());
  await expect(children.start(program('first', 'console.error("no port"); process.exitCode = 3'))).rejects.toThrow(
    /^first exited before it was ready \(3\)\n {4}no port$/,
  );
  const ends = program('second', 'console.log("ready"); process.exitCode = 4');
  expect(await children.start(ends)).toMatchObject({ value: 'second' });
  expect(await children.exited).toBe('second exited unexpectedly (4)');
});
