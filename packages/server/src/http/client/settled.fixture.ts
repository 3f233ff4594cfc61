/** Number of event loop turns without progress after which nothing inside this process is in transit. */
const STILL_TURNS = 500;

/** Waits until a growing number stops growing, and returns it: the system's buffers are full. */
export async function settled(count: () => number): Promise<number> {
  let before = count();
  for (let still = 0; still < STILL_TURNS || before === 0; still++) {
    await new Promise(setImmediate);
    const now = count();
    if (now !== before) still = 0;
    before = now;
  }
  return before;
}
