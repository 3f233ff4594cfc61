import { expect, test } from 'vitest';
import { Register } from './replicas-register.ts';

function written(...texts: readonly (string | undefined)[]): Register {
  const register = new Register('key');
  for (const text of texts) {
    register.write(text);
    register.end('acknowledged');
  }
  return register;
}

test('a read may return the last acknowledged write, and nothing earlier', () => {
  const register = written('1', '2');
  expect(register.check('2', register.floor)).toEqual([]);
  expect(register.check('1', register.floor)).toHaveLength(1);
  expect(register.check(undefined, register.floor)).toHaveLength(1);
  expect(register.check('1', register.floor, true)).toEqual([]);
});

test('a read that began before a write may return either value', () => {
  const register = written('1');
  const { floor } = register;
  register.write(undefined);
  register.end('acknowledged');
  expect(register.check('1', floor)).toEqual([]);
  expect(register.check(undefined, floor)).toEqual([]);
});

test('a write of unknown outcome may be seen at any later time, and stays', () => {
  const register = written('1');
  register.write('2');
  register.end('unknown');
  expect(register.isRetired).toBe(true);
  expect(register.check('1', register.floor)).toEqual([]);
  expect(register.check('2', register.floor)).toEqual([]);
  expect(register.check('1', register.floor)).toHaveLength(1);
});

test('a refused write is never seen', () => {
  const register = written('1');
  register.write('2');
  expect(register.check('2', register.floor)).toEqual([]);
  expect(register.end('refused')).toHaveLength(1);
  expect(register.check('2', 0, true)).toHaveLength(1);
});
