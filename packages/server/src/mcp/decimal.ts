const NUMBER = /^(-?)(0|[1-9]\d*)(?:\.(\d+))?(?:[eE]([+-]?\d{1,12}))?$/;
const ZERO = 0x30;

/**
 * True when two texts spell the same number in JSON's grammar, however large or exact: `42.0` and `42`, but not
 * 9223372036854775807 and 9223372036854775808, which are one double. Exponents of more than 12 digits are not read.
 */
export function sameNumber(a: string, b: string): boolean {
  if (a === b) return NUMBER.test(a);
  const one = canonical(a);
  return one !== undefined && one === canonical(b);
}

/** Sign, digits without zeros at either end, and exponent. Linear in the length: numbers come from outside. */
function canonical(text: string): string | undefined {
  const parts = NUMBER.exec(text);
  if (!parts) return undefined;
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = parts;
  const digits = whole + fraction;
  let start = 0;
  while (digits.charCodeAt(start) === ZERO) start++;
  if (start === digits.length) return '0';
  let end = digits.length;
  while (digits.charCodeAt(end - 1) === ZERO) end--;
  return `${sign}${digits.slice(start, end)}e${Number(exponent) - fraction.length + digits.length - end}`;
}
