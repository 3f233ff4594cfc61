import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, it } from 'vitest';
import { HeaderLines } from './header-lines.ts';

setFlagsFromString('--expose-gc');
const collect: () => void = runInNewContext('gc');

/** Bytes of the heap in use. */
function used(): number {
  collect();
  return process.memoryUsage().heapUsed;
}

it('a cached line does not retain the head that its name and value are slices of', () => {
  const lines = new HeaderLines(() => undefined);
  const before = used();
  for (let index = 0; index < 300; index++) {
    const head = Buffer.from(`mcp-param-of-tool-${index}: a value of some length ${'x'.repeat(16_000)}`).toString(
      'latin1',
    );
    const colon = head.indexOf(':');
    const { text } = lines.line(head.slice(0, colon), head.slice(colon + 2, colon + 24));
    expect(text).toBe(`mcp-param-of-tool-${index}: a value of some length\r\n`);
  }
  // The heads have 4.8 MB.
  expect(used() - before).toBeLessThan(1_000_000);
  expect(lines.line('mcp-param-of-tool-1', 'another').text).toBe('mcp-param-of-tool-1: another\r\n');
});
