/** An action cannot be built. The message has what is wrong with it, a line each: `my-action.ts:3:10: …`. */
export class ActionBuildError extends Error {
  override name = 'ActionBuildError';
  readonly problems: readonly string[];

  constructor(problems: readonly string[], options?: ErrorOptions) {
    super(problems.join('\n'), options);
    this.problems = problems;
  }
}
