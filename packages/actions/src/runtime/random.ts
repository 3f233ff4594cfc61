/**
 * A replacement for `Math.random` (sfc32), not for secrets. An engine's own begins where it stood when the action was
 * built, so that every run would get the same numbers, and an action that looks at every tenth request at none or all.
 */
export function randomOf(seed: string): () => number {
  // FNV-1a of the seed, then of itself.
  let hash = 0x811c9dc5;
  for (let at = 0; at < seed.length; at++) hash = Math.imul(hash ^ seed.charCodeAt(at), 0x01000193);
  const [a, b, c] = [hash, Math.imul(hash ^ 1, 0x01000193), Math.imul(hash ^ 2, 0x01000193)];
  const state = new Int32Array([a, b, c, 1]);
  const next = () => {
    const [x = 0, y = 0, z = 0, count = 0] = state;
    const result = (x + y + count) | 0;
    state.set([y ^ (y >>> 9), (z + (z << 3)) | 0, (((z << 21) | (z >>> 11)) + result) | 0, count + 1]);
    return (result >>> 0) / 2 ** 32;
  };
  // The first numbers are too much like the seed.
  for (let at = 0; at < 12; at++) next();
  return next;
}
