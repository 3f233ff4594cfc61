/** A signed 64-bit integer: a number if that is exact, else a bigint. */
export type Long = number | bigint;

const MAX = 2n ** 63n - 1n;
const MIN = -(2n ** 63n);

/** Returns an integer in its one form; undefined if it has more than 64 bits. */
export function toLong(value: bigint): Long | undefined {
  if (value > MAX || value < MIN) return undefined;
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

/** Returns the sum; undefined if it overflows. */
export function add(a: Long, b: Long): Long | undefined {
  if (typeof a === 'number' && typeof b === 'number') {
    const sum = a + b;
    if (Number.isSafeInteger(sum)) return sum;
  }
  return toLong(BigInt(a) + BigInt(b));
}

/** Returns the difference; undefined if it overflows. */
export function subtract(a: Long, b: Long): Long | undefined {
  if (typeof a === 'number' && typeof b === 'number') {
    const difference = a - b;
    if (Number.isSafeInteger(difference)) return difference;
  }
  return toLong(BigInt(a) - BigInt(b));
}

/** Returns the product; undefined if it overflows. */
export function multiply(a: Long, b: Long): Long | undefined {
  if (typeof a === 'number' && typeof b === 'number') {
    const product = a * b;
    // Not -0, which is no integer of its own.
    if (Number.isSafeInteger(product)) return product === 0 ? 0 : product;
  }
  return toLong(BigInt(a) * BigInt(b));
}

/** Returns the quotient, rounded towards zero. */
export function divide(a: Long, b: number): Long {
  if (typeof a === 'number') return Math.trunc(a / b) + 0;
  return toLong(a / BigInt(b)) ?? 0;
}

/** Returns the largest multiple of `step` that is not above `a`; undefined if it overflows. */
export function floorTo(a: Long, step: number): Long | undefined {
  const value = BigInt(a);
  const rest = value % BigInt(step);
  return toLong(value - rest - (rest < 0n ? BigInt(step) : 0n));
}
