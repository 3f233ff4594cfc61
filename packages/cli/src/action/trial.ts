import type { EvaluationContext, HistoryMessage, ToolEntry } from '@sluice/server/actions';
import { z } from 'zod';
import { validated } from '../files/checked.ts';
import { readDocument } from '../files/document.ts';
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
