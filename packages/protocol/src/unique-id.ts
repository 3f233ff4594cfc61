import { randomUUID } from 'node:crypto';
import { detach } from './text.ts';

/** Last digits of the ids that have the rest in common. */
const ENDINGS: readonly string[] = Array.from({ length: 4096 }, (_, number) => number.toString(16).padStart(3, '0'));

let beginning = '';
let used = ENDINGS.length;

/**
 * Returns a UUID (version 4) that nothing else has. It can be guessed from others: only every 4,096th is made of random digits, the
 * others differ from it in the last three, since formatting a UUID takes twenty small texts. Not for secrets.
 */
export function uniqueId(): string {
  if (used === ENDINGS.length) {
    beginning = detach(randomUUID().slice(0, -3));
    used = 0;
  }
  return `${beginning}${ENDINGS[used++]}`;
}
