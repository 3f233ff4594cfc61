import { add, divide, floorTo, type Long, subtract, toLong } from './long.ts';

/** A number with four decimal places. */
export class Decimal {
  readonly typeName = 'decimal';
  /** In ten-thousandths. */
  readonly amount: Long;

  constructor(amount: Long) {
    this.amount = amount;
  }

  /** Equal values have the same text. */
  get text(): string {
    return `decimal ${this.amount}`;
  }

  /** Parses `-12.3456`: at least one digit on both sides, at most four behind the point. */
  static parse(text: string): Decimal | undefined {
    const [, sign, whole, fraction] = /^(-?)(\d+)\.(\d{1,4})$/.exec(text) ?? [];
    if (whole === undefined || fraction === undefined || whole.length > MAX_DIGITS) return undefined;
    const amount = toLong(
      BigInt(`${sign === '-' ? '-' : ''}${whole}${fraction.padEnd(4, '0')}`.replace(/^-(?=0*$)/, '')),
    );
    return amount === undefined ? undefined : new Decimal(amount);
  }
}

/** Longest number in a text: leading zeros do not count as too large in the language, but a text of a megabyte must not be parsed. */
const MAX_DIGITS = 1_000;

/** A point in time. */
export class DateTime {
  readonly typeName = 'datetime';
  /** In milliseconds since 1970, without leap seconds. */
  readonly amount: Long;

  constructor(amount: Long) {
    this.amount = amount;
  }

  /** See {@link Decimal.text}. */
  get text(): string {
    return `datetime ${this.amount}`;
  }

  /** Parses a date, `2026-01-31`, or a date and a time with their zone: `2026-01-31T08:00:00Z`, `….250Z`, `…+0100`. */
  static parse(text: string): DateTime | undefined {
    const [, date, time, fraction = '.000', sign, hours, minutes] = DATE_TIME.exec(text) ?? [];
    if (date === undefined) return undefined;
    const at = Date.parse(`${date}T${time ?? '00:00:00'}${fraction}Z`);
    // The standard library also takes 24:00, and the 31st of each month.
    if (Number.isNaN(at) || !new Date(at).toISOString().startsWith(`${date}T${time ?? ''}`)) return undefined;
    if (sign === undefined) return new DateTime(at);
    const [hour, minute] = [Number(hours), Number(minutes)];
    if (hour > 23 || minute > 59) return undefined;
    const offset = (hour * 60 + minute) * 60_000;
    return new DateTime(sign === '+' ? at - offset : at + offset);
  }

  /** Returns this time later by a duration; undefined if it overflows. */
  offset({ amount }: Duration): DateTime | undefined {
    return dateTimeOf(add(this.amount, amount));
  }

  /** Returns the time since another one; undefined if it overflows. */
  durationSince({ amount }: DateTime): Duration | undefined {
    return durationOf(subtract(this.amount, amount));
  }

  /** Returns the beginning of its day; undefined if it overflows. */
  toDate(): DateTime | undefined {
    return dateTimeOf(floorTo(this.amount, DAY_MS));
  }

  /** Returns the time since the beginning of its day. */
  toTime(): Duration {
    const days = BigInt(DAY_MS);
    return new Duration(Number(((BigInt(this.amount) % days) + days) % days));
  }
}

const DATE_TIME = /^(\d{4}-\d\d-\d\d)(?:T(\d\d:\d\d:\d\d)(\.\d{3})?(?:Z|([+-])(\d\d)(\d\d)))?$/;

const DAY_MS = 24 * 60 * 60 * 1_000;

/** Units of durations in milliseconds, in the order in which they are written. */
const UNITS = [
  ['d', DAY_MS],
  ['h', 60 * 60 * 1_000],
  ['m', 60 * 1_000],
  ['s', 1_000],
  ['ms', 1],
] as const;
const DURATION = /^(-?)(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+)s)?(?:(\d+)ms)?$/;

/** A length of time. */
export class Duration {
  readonly typeName = 'duration';
  /** In milliseconds. */
  readonly amount: Long;

  constructor(amount: Long) {
    this.amount = amount;
  }

  /** See {@link Decimal.text}. */
  get text(): string {
    return `duration ${this.amount}`;
  }

  /** Parses `1d2h3m4s5ms`: each unit at most once, in this order, at least one. */
  static parse(text: string): Duration | undefined {
    const [matched, sign, ...counts] = (text.length <= MAX_DIGITS && DURATION.exec(text)) || [];
    if (matched === undefined || counts.every((count) => count === undefined)) return undefined;
    const amounts = UNITS.map(([, ms], index) => BigInt(counts[index] ?? 0) * BigInt(ms));
    const sum = amounts.reduce((total, amount) => total + amount, 0n);
    return durationOf(toLong(sign === '-' ? -sum : sum));
  }

  /** Returns the number of whole units, rounded towards zero. */
  to(unit: 'd' | 'h' | 'm' | 's' | 'ms'): Long {
    const [, ms] = UNITS.find(([name]) => name === unit) ?? UNITS[4];
    return divide(this.amount, ms);
  }
}

function dateTimeOf(amount: Long | undefined): DateTime | undefined {
  return amount === undefined ? undefined : new DateTime(amount);
}

function durationOf(amount: Long | undefined): Duration | undefined {
  return amount === undefined ? undefined : new Duration(amount);
}
