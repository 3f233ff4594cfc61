import type { Client } from '@sluice/contract/client';
import type { GlobalOptions } from './options.ts';
import type { Output } from './output/output.ts';
import type { Terminal } from './terminal/terminal.ts';

/** What a group of commands gets. Everything is known only while a command runs, not while the program is put together. */
export interface Context {
  readonly terminal: Terminal;
  /** The global options of this invocation. */
  readonly options: () => GlobalOptions;
  /**
   * The management API of `--host`, with the credentials that the options name. Throws `Failure` when there are none;
   * no request is made, but to renew a log-in that has expired, unless that is not wanted. Failed requests reject with
   * errors that need not be caught: the frame says what they mean.
   */
  readonly connect: (how?: { readonly renew: boolean }) => Promise<Client>;
  /** Prints results in the form that `--output` names. */
  readonly output: () => Output;
}
