import { createHash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';

/** A millisecond or two. */
const AT_ONCE = 1024 * 1024;

/** SHA-256 of a component, in hex; of a large one in pieces, between which others go on. */
export async function componentChecksum(component: Uint8Array): Promise<string> {
  const hash = createHash('sha256').update(component.subarray(0, AT_ONCE));
  for (let at = AT_ONCE; at < component.length; at += AT_ONCE) {
    await setImmediate();
    hash.update(component.subarray(at, at + AT_ONCE));
  }
  return hash.digest('hex');
}
