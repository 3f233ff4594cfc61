/**
 * Node.js flags of the service: a larger young generation, and no pretenuring (docs/architecture.md,
 * "Performance").
 */
export const NODE_FLAGS: readonly string[] = ['--max-semi-space-size=64', '--no-allocation-site-pretenuring'];
