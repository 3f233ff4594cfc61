import { expect, test } from 'vitest';
import { LineDecoder } from './answer-capture.ts';

test('a line that no line feed ends is not stored, also after a carriage return', () => {
  const events: string[] = [];
  const errors: Error[] = [];
  const decoder = new LineDecoder({
    onEvent: ({ data }) => events.push(data),
    onLargeData: () => undefined,
    onLargeEvent: () => events.push('large'),
    onEventError: (error) => errors.push(error),
  });
  decoder.write(Buffer.from('{"a":1}\r\n{"b":2}\n\r'));
  expect(events).toEqual(['{"a":1}', '{"b":2}']);
  for (let n = 0; n < 20; n++) decoder.write(Buffer.alloc(64 * 1024, 'x'));
  expect(errors).toHaveLength(1);
});
