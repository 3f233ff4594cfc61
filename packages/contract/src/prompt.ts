import { z } from 'zod';
import { withAliases } from './aliases.ts';
import { entryAnswer, entryInput, upstreamName } from './entry.ts';
import { byValue, jsonObject, jsonValue, listOf } from './json.ts';
import { entryName } from './names.ts';

const aliases = { configuration_uri: 'configurationURI' };

/** Upstreams' arguments may have members of their own. */
const promptArgument = z
  .object({ name: z.string(), description: z.string().optional(), required: z.boolean().optional() })
  .catchall(jsonValue);

const promptMessage = z
  .object({
    role: z.enum(['user', 'assistant', 'system']),
    content: z.union([z.string(), jsonObject], { error: 'expected a string or a content object' }),
  })
  .catchall(jsonValue);

const body = z.object({
  name: entryName,
  description: z.string().optional(),
  arguments: listOf(byValue(promptArgument)).optional().describe('What can be filled in.'),
  messages: listOf(byValue(promptMessage))
    .optional()
    .describe(
      '`{key}` in a text is replaced by the argument. None on discovered prompts, which their upstream renders.',
    ),
  ...entryInput,
});

/** Body of `POST /api/v1/prompts` under canonical names (decisions 2.7). Other members are kept as they are. */
export const promptInput = withAliases(aliases, body.catchall(jsonValue)).meta({ id: 'PromptInput' });

/** Body of `PUT /api/v1/prompts/{name}`: as {@link promptInput}, but without `name` it keeps its own. */
export const promptUpdate = withAliases(aliases, body.extend({ name: entryName.optional() }).catchall(jsonValue)).meta({
  id: 'PromptUpdate',
});

/** A prompt as it is answered (decisions 2.7). */
export const prompt = z
  .object({
    name: z.string(),
    description: z.string(),
    arguments: z.array(jsonValue),
    messages: z.array(promptMessage),
    upstreamName,
    ...entryAnswer,
  })
  .catchall(jsonValue)
  .meta({ id: 'Prompt' });

export type PromptInput = z.infer<typeof promptInput>;
export type PromptUpdate = z.infer<typeof promptUpdate>;
export type Prompt = z.infer<typeof prompt>;
