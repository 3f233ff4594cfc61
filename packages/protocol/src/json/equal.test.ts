import { expect, test } from 'vitest';
import { equal, identical } from './equal.ts';
import { parseLossless } from './parse.ts';

test.each([
  ['1', '1', 'identical'],
  ['9223372036854775807', '9223372036854775807', 'identical'],
  ['[1,2]', '[1,2]', 'identical'],
  ['{"a":1,"b":[{}]}', '{"b":[{}],"a":1}', 'identical'],
  ['{"__proto__":1.0}', '{"__proto__":1.0}', 'identical'],
  ['1.0', '1', 'equal'],
  ['[{"a":-0}]', '[{"a":0}]', 'equal'],
  ['9223372036854775807', '9223372036854776000', 'equal'],
  ['9223372036854775807', '9223372036854775806', 'different'],
  ['"1"', '1', 'different'],
  ['1.0', '"1.0"', 'different'],
  ['1.0', '{"rawJSON":"1.0"}', 'different'],
  ['null', '{}', 'different'],
  ['[1,2]', '[2,1]', 'different'],
  ['[1]', '[1,null]', 'different'],
  ['[null]', '[1]', 'different'],
  ['{"a":1}', '{"a":1,"b":null}', 'different'],
  ['{"a":1}', '{"b":1}', 'different'],
  ['[]', '{}', 'different'],
])('%s and %s are %s', (a, b, verdict) => {
  for (const [left, right] of [
    [parseLossless(a), parseLossless(b)],
    [parseLossless(b), parseLossless(a)],
  ] as const) {
    expect(equal(left, right)).toBe(verdict !== 'different');
    expect(identical(left, right)).toBe(verdict === 'identical');
  }
});
