import type { Client } from '@sluice/contract/client';
import type { GlobalOptions } from './options.ts';
import type { Output } from './output/output.ts';
import type { Terminal } from './terminal/terminal.ts';

/** Context of a command. Everything in it is resolved while a command runs, not while the program is built. */
export interface Context {
  readonly terminal: Terminal;
  /** The global options of this invocation. */
  readonly options: () => GlobalOptions;
  /**
   * Returns a client of the management API at `--host`, with the credentials of the options, if any. Sends no request,
   * except to renew an expired login (unless `renew` is false); throws `Failure` when that is impossible. Failed
   * requests reject with errors that `run` explains.
   */
  readonly connect: (how?: { readonly renew: boolean }) => Promise<Client>;
  /** Returns the output for the format of `--output`. */
  readonly output: () => Output;
}
