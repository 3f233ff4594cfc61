/** An expected failure that its message explains in one line, with optional `notes` below it. The exit code is 1. */
export class Failure extends Error {
  override name = 'Failure';
  readonly notes: readonly string[];

  constructor(message: string, options: { readonly notes?: readonly string[]; readonly cause?: unknown } = {}) {
    super(message, { cause: options.cause });
    this.notes = options.notes ?? [];
  }
}

/** Ends the command with an exit code and without a message, because everything has been printed. */
export class Exit extends Error {
  override name = 'Exit';
  readonly code: number;

  constructor(code: number) {
    super(`exit ${code}`);
    this.code = code;
  }
}
