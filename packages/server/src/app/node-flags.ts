/**
 * Node.js flags of the service (docs/architecture.md, "Performance"): a larger young generation, no pretenuring, and more
 * inlining, because a call passes many small functions.
 */
export const NODE_FLAGS: readonly string[] = [
  '--max-semi-space-size=64',
  '--no-allocation-site-pretenuring',
  '--max-inlined-bytecode-size=1000',
  '--max-inlined-bytecode-size-cumulative=3000',
];
