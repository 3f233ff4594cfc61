import { Failure } from '../failure.ts';
import { readDocument } from '../files/document.ts';
import type { Terminal } from '../terminal/terminal.ts';

/** What texts are checked by in a trial. It has a thread, which ends when it is disposed of. */
export interface ResultValidator extends AsyncDisposable {
  /** What is wrong with a text, joined with `; `; undefined when nothing is. */
  readonly verify: (raw: string) => Promise<string | undefined>;
}

/** The schema of a file for `--schema`, as the service uses it; without a file everything is right. Throws {@link Failure}. */
export async function readResultSchema(path: string | undefined, terminal: Terminal): Promise<ResultValidator> {
  if (path === undefined) return { verify: async () => undefined, [Symbol.asyncDispose]: async () => undefined };
  const document = await readDocument(path, terminal);
  const { ResultSchemaError, ResultSchemas } = await import('@sluice/server/actions');
  const schemas = new ResultSchemas();
  try {
    const { validate } = await schemas.compile(document);
    return { verify: validate, [Symbol.asyncDispose]: () => schemas.close() };
  } catch (error) {
    await schemas.close();
    if (!(error instanceof ResultSchemaError)) throw error;
    throw new Failure(`${path}: ${error.message}`, { cause: error });
  }
}
