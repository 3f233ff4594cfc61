import { z } from 'zod';
import { withAliases } from './aliases.ts';
import { type JsonObject, jsonObject, jsonValue, objectOf } from './json.ts';
import { labels } from './labels.ts';
import { entryName, namespaceName } from './names.ts';

const aliases = { configuration_uri: 'configurationURI' };

/** Checked, but handed on as sent: an upstream's arguments may have members of their own. */
const promptArgument = jsonObject
  .superRefine((argument: JsonObject, context) => {
    expectType(context, argument, 'name', 'string', true);
    expectType(context, argument, 'description', 'string', false);
    expectType(context, argument, 'required', 'boolean', false);
  })
  .meta({
    properties: { name: { type: 'string' }, description: { type: 'string' }, required: { type: 'boolean' } },
    required: ['name'],
  });

const promptMessage = z
  .object({
    role: z.enum(['user', 'assistant', 'system']),
    content: z.union([z.string(), jsonObject], { error: 'expected a string or a content object' }),
  })
  .catchall(jsonValue);

const body = z.object({
  name: entryName,
  description: z.string().optional(),
  arguments: z.array(promptArgument).optional(),
  messages: z.array(objectOf(promptMessage)).optional(),
  namespace: namespaceName.optional(),
  labels: labels.optional(),
  configurationURI: z.string().optional(),
  id: z.string().optional(),
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
    namespace: namespaceName,
    labels,
    configurationURI: z.string().optional(),
    id: z.string().optional(),
    forward: z.string().optional(),
    upstreamName: z.string().optional(),
    shadowed: z.literal(true).optional(),
  })
  .catchall(jsonValue)
  .meta({ id: 'Prompt' });

export type PromptInput = z.infer<typeof promptInput>;
export type PromptUpdate = z.infer<typeof promptUpdate>;
export type Prompt = z.infer<typeof prompt>;

function expectType(
  context: z.RefinementCtx,
  object: JsonObject,
  member: string,
  type: 'string' | 'boolean',
  required: boolean,
): void {
  const value = object[member];
  if (value === undefined ? !required : typeof value === type) return;
  const message = value === undefined ? 'is required' : `expected ${type}`;
  context.addIssue({ code: 'custom', path: [member], message });
}
