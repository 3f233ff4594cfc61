/** What a gateway itself adds lies below a millisecond, where the conventions have no bounds. */
const OWN_SHARE = [0.0005, 0.001, 0.0025];

/** Of the durations of HTTP requests, in seconds: those of the semantic conventions. */
export const HTTP_SECONDS: readonly number[] = [
  ...OWN_SHARE,
  ...[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10],
];

/** Of the durations of MCP operations, in seconds: those of the conventions. */
export const MCP_SECONDS: readonly number[] = [
  ...OWN_SHARE,
  ...[0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300],
];

/** Of the durations of completions, in seconds: those of the GenAI conventions. */
export const COMPLETION_SECONDS: readonly number[] = [
  ...[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92],
];

/** Of numbers of tokens: those of the GenAI conventions. */
export const TOKENS: readonly number[] = Array.from({ length: 14 }, (_, power) => 4 ** power);
