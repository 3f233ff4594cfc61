import { expect, it } from 'vitest';
import { formatAddress, listenAddress } from './address.ts';

it.each(['0.0.0.0:8080', '[::]:8081', '[::ffff:1.2.3.4]:0', 'a.example:1'])('formats %s as it was parsed', (text) => {
  expect(formatAddress(listenAddress.parse(text))).toBe(text);
});
