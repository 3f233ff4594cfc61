import { DateTime, Decimal, Duration } from './extension-values.ts';
import { IpRange } from './ip-range.ts';
import type { Long } from './long.ts';
import { expected, Failure, type Result, type Value } from './values.ts';

type Apply = (...values: readonly Value[]) => Result;

/** Functions and methods of the extension types, by name; the receiver of a method is its first argument. */
export const extensionFunctions: ReadonlyMap<string, Apply> = new Map<string, Apply>([
  ['decimal', parser('decimal', Decimal.parse)],
  ['datetime', parser('datetime', DateTime.parse)],
  ['duration', parser('duration', Duration.parse)],
  ['ip', parser('ipaddr', IpRange.parse)],
  ['lessThan', decimals((left, right) => left < right)],
  ['lessThanOrEqual', decimals((left, right) => left <= right)],
  ['greaterThan', decimals((left, right) => left > right)],
  ['greaterThanOrEqual', decimals((left, right) => left >= right)],
  ['isIpv4', method(IpRange, (range) => range.isIpv4)],
  ['isIpv6', method(IpRange, (range) => !range.isIpv4)],
  ['isLoopback', method(IpRange, (range) => range.isLoopback)],
  ['isMulticast', method(IpRange, (range) => range.isMulticast)],
  [
    'isInRange',
    method(IpRange, (range, other) => (is(IpRange, other) ? range.isInRange(other) : expected('ipaddr', other))),
  ],
  ['offset', method(DateTime, (time, by) => (is(Duration, by) ? inRange(time.offset(by)) : expected('duration', by)))],
  [
    'durationSince',
    method(DateTime, (time, since) =>
      is(DateTime, since) ? inRange(time.durationSince(since)) : expected('datetime', since),
    ),
  ],
  ['toDate', method(DateTime, (time) => inRange(time.toDate()))],
  ['toTime', method(DateTime, (time) => time.toTime())],
  ['toDays', method(Duration, (duration) => duration.to('d'))],
  ['toHours', method(Duration, (duration) => duration.to('h'))],
  ['toMinutes', method(Duration, (duration) => duration.to('m'))],
  ['toSeconds', method(Duration, (duration) => duration.to('s'))],
  ['toMilliseconds', method(Duration, (duration) => duration.to('ms'))],
]);

type Class<T> = abstract new (...values: never[]) => T;

function is<T>(type: Class<T>, value: Value | undefined): value is T & Value {
  return value instanceof type;
}

function inRange(value: Value | undefined): Result {
  return value ?? new Failure('datetime or duration overflow');
}

function parser(type: string, parse: (text: string) => Value | undefined): Apply {
  return (text = false) => {
    if (typeof text !== 'string') return expected('string', text);
    return parse(text) ?? new Failure(`the text is no ${type}`);
  };
}

function method<T>(type: Class<T>, apply: (receiver: T & Value, argument: Value) => Result): Apply {
  const name = type.name.toLowerCase();
  return (receiver = false, argument = false) =>
    is(type, receiver) ? apply(receiver, argument) : expected(name === 'iprange' ? 'ipaddr' : name, receiver);
}

function decimals(compare: (left: Long, right: Long) => boolean): Apply {
  return method(Decimal, (left, right) =>
    right instanceof Decimal ? compare(left.amount, right.amount) : expected('decimal', right),
  );
}
