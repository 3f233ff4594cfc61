import { expect, it } from 'vitest';
import { addressText, listenAddress } from './address.ts';

it.each(['0.0.0.0:8080', '[::]:8081', '[::ffff:1.2.3.4]:0', 'a.example:1'])('%s is spelled as it is read', (text) => {
  expect(addressText(listenAddress.parse(text))).toBe(text);
});
