import { z } from 'zod';
import { prompt, promptInput, promptUpdate } from '../prompt.ts';
import { removed } from '../removed.ts';
import { resource, resourceInput, resourceUpdate } from '../resource.ts';
import { tool, toolInput, toolUpdate } from '../tool.ts';
import { operation, type QueryParameter } from './operation.ts';

const NAMESPACE = {
  description: 'The namespace that is meant. Without it: `default`, else the only one that has the name.',
} satisfies QueryParameter;
const URI = {
  description: 'The location that is meant, where several resources share the name.',
} satisfies QueryParameter;
const LIST = {
  namespace: { description: 'Only entries of this namespace.' },
  include: {
    description:
      '`shadowed` lists also entries that are not served because another one, registered earlier, has their key. `upstream` is described at the single entry.',
    values: ['shadowed', 'upstream', 'shadowed,upstream'],
  },
} satisfies Record<string, QueryParameter>;
const INCLUDE = {
  description:
    '`upstream` adds a read-only member of that name to a discovered entry: what its upstream says itself, in the members that a PUT can override.',
  values: ['upstream'],
} satisfies QueryParameter;

/** What one kind of entry brings to its operations. */
interface EntryKind<
  One extends z.ZodType,
  Input extends z.ZodType,
  Update extends z.ZodType,
  Select extends Readonly<Record<string, QueryParameter>>,
> {
  readonly kind: 'tool' | 'resource' | 'prompt';
  readonly one: One;
  readonly input: Input;
  readonly update: Update;
  /** Query parameters that say which of several is meant. */
  readonly select: Select;
}

/** List, read, create, update and delete, alike for tools, resources and prompts (decisions 2.2, 4.1). */
function entryOperations<
  One extends z.ZodType,
  Input extends z.ZodType,
  Update extends z.ZodType,
  Select extends Readonly<Record<string, QueryParameter>>,
>({ kind, one, input, update, select }: EntryKind<One, Input, Update, Select>) {
  const plural = `${kind}s`;
  const Name = kind[0]?.toUpperCase() + kind.slice(1);
  const path = `/api/v1/${plural}`;
  return {
    list: operation({
      id: `list${Name}s`,
      method: 'GET',
      path,
      tag: plural,
      summary: `List the ${plural} that are served`,
      description:
        'Over all namespaces or of one. What operators made comes in order of registration, what a forward brought in the order of its upstream.',
      query: LIST,
      answers: { 200: { description: `The ${plural}.`, data: z.array(one) } },
      failures: [],
    }),
    create: operation({
      id: `create${Name}`,
      method: 'POST',
      path,
      tag: plural,
      summary: `Register a ${kind} by hand`,
      description: 'A namespace that does not exist is created.',
      body: { kind, schema: input },
      answers: { 201: { description: `The ${kind}.`, data: one, location: true } },
      failures: ['CONFLICT'],
    }),
    get: operation({
      id: `get${Name}`,
      method: 'GET',
      path: `${path}/{name}`,
      tag: plural,
      summary: `Read one ${kind}`,
      query: { ...select, include: INCLUDE },
      answers: { 200: { description: `The ${kind}.`, data: one } },
      failures: ['NOT_FOUND', 'CONFLICT'],
    }),
    update: operation({
      id: `update${Name}`,
      method: 'PUT',
      path: `${path}/{name}`,
      tag: plural,
      summary: `Replace a ${kind}`,
      description: `Another name renames it, another namespace moves it. What differs from the upstream on a discovered ${kind} is kept over discoveries.`,
      query: select,
      body: { kind, schema: update },
      answers: { 200: { description: `The ${kind} as it is now.`, data: one } },
      failures: ['NOT_FOUND', 'CONFLICT'],
    }),
    remove: operation({
      id: `delete${Name}`,
      method: 'DELETE',
      path: `${path}/{name}`,
      tag: plural,
      summary: `Delete a ${kind}`,
      description: 'A discovered one returns with the next discovery of its forward.',
      query: select,
      answers: { 200: { description: 'Its name.', data: removed } },
      failures: ['NOT_FOUND', 'CONFLICT'],
    }),
  };
}

/** `/api/v1/tools` (specification, "Endpoints"; decisions 2.5). */
export const toolOperations = entryOperations({
  kind: 'tool',
  one: tool,
  input: toolInput,
  update: toolUpdate,
  select: { namespace: NAMESPACE },
});

/** `/api/v1/resources` (specification, "Endpoints"; decisions 2.6, 4.2). */
export const resourceOperations = entryOperations({
  kind: 'resource',
  one: resource,
  input: resourceInput,
  update: resourceUpdate,
  select: { namespace: NAMESPACE, uri: URI },
});

/** `/api/v1/prompts` (specification, "Endpoints"; decisions 2.7, 4.2). */
export const promptOperations = entryOperations({
  kind: 'prompt',
  one: prompt,
  input: promptInput,
  update: promptUpdate,
  select: { namespace: NAMESPACE },
});
