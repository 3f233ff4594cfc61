/**
 * What Node.js is started with to run the service: a larger young generation, and no guesses at where objects will grow
 * old (docs/architecture.md, "What is hot, and why").
 */
export const NODE_FLAGS: readonly string[] = ['--max-semi-space-size=64', '--no-allocation-site-pretenuring'];
