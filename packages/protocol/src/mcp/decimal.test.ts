import { describe, expect, it } from 'vitest';
import { sameNumber } from './param-headers.ts';

describe('numbers in any notation', () => {
  it.each([
    ['42', '42'],
    ['42.0', '42'],
    ['4.2e1', '42'],
    ['4200E-2', '42.000'],
    ['-7', '-7.0'],
    ['0', '-0'],
    ['0.0', '0e5'],
    ['100', '1e2'],
    ['9223372036854775807', '9223372036854775807.0'],
    ['1e400', '10e399'],
  ])('%s is %s', (a, b) => {
    expect([sameNumber(a, b), sameNumber(b, a)]).toEqual([true, true]);
  });

  it.each([
    ['42', '43'],
    ['42', '-42'],
    ['9223372036854775807', '9223372036854775808'],
    ['1', '1.00000000000000000001'],
    ['1e400', '1e401'],
    ['10', '1'],
    // Not JSON numbers.
    ['42', '042'],
    ['42', '+42'],
    ['42', '0x2a'],
    ['42', ' 42'],
    ['42', ''],
    ['NaN', 'NaN'],
    ['1e1000000000000000000000', '10e999999999999999999999'],
  ])('%s is not %s', (a, b) => {
    expect([sameNumber(a, b), sameNumber(b, a)]).toEqual([false, false]);
  });

  it('takes linear time', () => {
    const zeros = '0'.repeat(2_000_000);
    const started = performance.now();
    expect(sameNumber(`1${zeros}1${zeros}1`, `1${zeros}1${zeros}2`)).toBe(false);
    // Quadratic behavior would take minutes.
    expect(performance.now() - started).toBeLessThan(10_000);
  });
});
