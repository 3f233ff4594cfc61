import type { Client } from '@sluice/contract/client';
import type { Context } from '../context.ts';
import { Failure } from '../failure.ts';
import { readText } from '../files/read.ts';
import { type Actual, readActual } from './actual.ts';
import { plan } from './plan.ts';
import { readState } from './state-file.ts';
import type { Step } from './step.ts';

/** What the options of `apply` and `diff` name. */
export interface StateOptions {
  readonly file: readonly string[];
  readonly prune?: boolean;
}

/** A plan, and what it was made of. */
export interface Planned {
  readonly client: Client;
  readonly actual: Actual;
  readonly steps: readonly Step[];
}

/** Reads the state files and the service, and plans. No request is sent before the files are known to be right. */
export async function planned({ file, prune = false }: StateOptions, { terminal, connect }: Context): Promise<Planned> {
  if (file.filter((name) => name === '-').length > 1) throw new Failure('-f -: standard input can be read once');
  const texts = [];
  for (const name of file) {
    texts.push({ name: name === '-' ? 'standard input' : name, text: await readText(name, terminal) });
  }
  const desired = readState(texts);
  const client = await connect();
  const actual = await readActual(client, prune);
  return { client, actual, steps: plan(desired, actual, { prune }) };
}
