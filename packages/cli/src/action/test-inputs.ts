import { unknownField } from '@sluice/contract';
import type { EvaluationContext, HistoryMessage, ToolEntry } from '@sluice/server/actions';
import { z } from 'zod';
import { Failure } from '../failure.ts';
import { readDocument, validated } from '../files/document.ts';
import type { Terminal } from '../terminal/terminal.ts';

/** Arguments as pairs, or as an object. */
const argumentPairs = z.union(
  [
    z.array(z.tuple([z.string(), z.string()])),
    z
      .record(z.string(), z.unknown())
      .transform((members) => Object.entries(members).map(([name, value]): [string, string] => [name, toText(value)])),
  ],
  { error: 'must be an object or a list of string pairs: [["path", "/x"]]' },
);

/** An object schema that rejects unknown members with the same message as the service. */
function closedObject<T extends z.core.$ZodLooseShape>(members: T) {
  const unknown = unknownField(Object.keys(members));
  return z.strictObject(members, { error: ({ code }) => (code === 'unrecognized_keys' ? unknown : undefined) });
}

/** Members that every request has are required, so that a typo does not test a different request. */
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

/** Additional members are allowed, as in the output of `sluice tools list --output json`. */
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

/** Reads the file of `--context`. Throws `Failure`. */
export async function readContext(path: string, terminal: Terminal): Promise<EvaluationContext> {
  const { toolName, conversationId, ...context } = await validated(
    () => contextSchema,
    await readDocument(path, terminal),
    `context (${path})`,
  );
  return {
    ...context,
    ...(toolName !== undefined && { toolName }),
    ...(conversationId !== undefined && { conversationId }),
  };
}

/** Reads the file of `--tools`, in order of registration. Throws `Failure`. */
export async function readTools(path: string, terminal: Terminal): Promise<(ToolEntry & { namespace: string })[]> {
  return validated(() => toolListSchema, await readDocument(path, terminal), `list of tools (${path})`);
}

/** Reads the file of `--history`, oldest message first. Throws `Failure`. */
export async function readHistory(path: string, terminal: Terminal): Promise<HistoryMessage[]> {
  return validated(() => historySchema, await readDocument(path, terminal), `history (${path})`);
}

function toText(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
}

/** Validator of LLM results in a test run. Its thread ends when it is disposed of. */
export interface ResultValidator extends AsyncDisposable {
  /** Returns the problems of a text, joined with `; `; undefined when it is valid. */
  readonly verify: (raw: string) => Promise<string | undefined>;
}

/**
 * Compiles the schema of `--schema` as the service does; without a file every text is valid. Throws {@link Failure}.
 */
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
