import { expect, onTestFinished, test } from 'vitest';
import { Children } from './children.ts';

const program = (name: string, code: string) => ({
  name,
  args: ['-e', code],
  env: {},
  folder: '/',
  ready: (line: string) => (line === 'ready' ? name : undefined),
});

test('only a program that was ready is missed when it ends', async () => {
  const children = new Children();
  onTestFinished(() => children.end());
  await expect(children.start(program('first', 'console.error("no port"); process.exitCode = 3'))).rejects.toThrow(
    /^first ended before it was ready \(3\)\n {4}no port$/,
  );
  const ends = program('second', 'console.log("ready"); process.exitCode = 4');
  expect(await children.start(ends)).toMatchObject({ value: 'second' });
  expect(await children.lost).toBe('second ended by itself (4)');
});
