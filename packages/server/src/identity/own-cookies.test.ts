import { expect, it } from 'vitest';
import { ownCookie, setsOwnCookie } from './own-cookies.ts';

it('a cookie of ours has one value', () => {
  expect(ownCookie(['sluice=a', ' sluice-login=b'], 'sluice')).toBe('a');
  expect(ownCookie(['sluice=a', ' sluice = a'], 'sluice')).toBe('a');
  expect(ownCookie(['sluice=a=b'], 'sluice')).toBe('a=b');
  for (const own of [undefined, [], ['sluice-login=a'], ['sluice=a', 'sluice=b']])
    expect(ownCookie(own, 'sluice')).toBeUndefined();
});

it.each(['sluice=a', '__Host-sluice=; Max-Age=0', ' sluice-login =a; Path=/', 'sluice', '=sluice=a', ' = =sluice=a'])(
  '%s sets a cookie of ours',
  (value) => {
    expect(setsOwnCookie(value)).toBe(true);
  },
);

it.each(['x=sluice', 'sluice2=a', 'x=1; sluice=a', 'SLUICE=a'])('%s sets another one', (value) => {
  expect(setsOwnCookie(value)).toBe(false);
});
