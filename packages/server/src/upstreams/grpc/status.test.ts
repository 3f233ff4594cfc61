import { status as libraryStatus } from '@grpc/grpc-js';
import { expect, test } from 'vitest';
import { status, statusName } from './status.ts';

test('codes and names are those of the library', () => {
  const codes = Object.values(libraryStatus).filter((code) => typeof code === 'number');
  expect(codes.map(statusName)).toEqual(codes.map((code) => libraryStatus[code]));
  expect(status).toEqual(
    Object.fromEntries(Object.keys(status).map((name) => [name, Reflect.get(libraryStatus, name)])),
  );
});

test('an unknown code is its own name', () => {
  expect(statusName(99)).toBe('99');
});
