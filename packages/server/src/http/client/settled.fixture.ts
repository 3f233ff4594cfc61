/** Turns of the event loop in which nothing moves: whatever is on its way inside this process moves in each. */
const STILL_TURNS = 500;

/** Waits until a number that has begun to grow grows no more, and returns it: the system's buffers are full. */
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
