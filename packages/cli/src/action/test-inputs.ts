import type { EvaluationContext, HistoryMessage, ToolEntry } from '@sluice/server/actions';
import { z } from 'zod';
import { Failure } from '../failure.ts';
import { readDocument, validated } from '../files/document.ts';
import type { Terminal } from '../terminal/terminal.ts';

/** As pairs, or as the arguments of a call are written. */
const argumentPairs = z.union(
  [
    z.array(z.tuple([z.string(), z.string()])),
    z
      .record(z.string(), z.unknown())
      .transform((members) => Object.entries(members).map(([name, value]): [string, string] => [name, toText(value)])),
  ],
  { error: 'must be an object, or a list of pairs of texts: [["path", "/x"]]' },
);

/** An object that has these members and no others, of which is said what the service says of those of evaluators. */
function closedObject<T extends z.core.$ZodLooseShape>(members: T) {
  const unknown = `is not known; known are ${Object.keys(members).join(', ')}`;
  return z.strictObject(members, { error: ({ code }) => (code === 'unrecognized_keys' ? unknown : undefined) });
}

/** What every request has is needed: who forgets it tests another request than they think. */
const contextSchema = closedObject({
  method: z.string(),
  namespace: z.string(),
  toolName: z.string().optional(),
  arguments: argumentPairs.default([]),
  llmResult: z
    .unknown()
    .optional()
    .transform((value) => (value === undefined ? '' : toText(value))),
  conversationId: z.string().optional(),
});

/** More members may be there: `sluice tools list --output json` has them. */
const toolListSchema = z.array(
  z.object({
    name: z.string(),
    description: z.string().default(''),
    uri: z.string().default(''),
    toolType: z.string().default('custom'),
    namespace: z.string().default('default'),
  }),
);

const historySchema = z.array(closedObject({ role: z.string().default('unknown'), content: z.string() }));

/** The context of a file for `--context`. Throws `Failure`. */
export async function readContext(path: string, terminal: Terminal): Promise<EvaluationContext> {
  const { toolName, conversationId, ...context } = validated(
    contextSchema,
    await readDocument(path, terminal),
    `context (${path})`,
  );
  return {
    ...context,
    ...(toolName !== undefined && { toolName }),
    ...(conversationId !== undefined && { conversationId }),
  };
}

/** The tools of a file for `--tools`, in order of registration. Throws `Failure`. */
export async function readTools(path: string, terminal: Terminal): Promise<(ToolEntry & { namespace: string })[]> {
  return validated(toolListSchema, await readDocument(path, terminal), `list of tools (${path})`);
}

/** The messages of a file for `--history`, oldest first. Throws `Failure`. */
export async function readHistory(path: string, terminal: Terminal): Promise<HistoryMessage[]> {
  return validated(historySchema, await readDocument(path, terminal), `history (${path})`);
}

function toText(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
}

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
