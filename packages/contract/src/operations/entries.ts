import { z } from 'zod';
import { enabledByName, enabledByUri, enabledResult } from '../schemas/enabled.ts';
import {
  prompt,
  promptInput,
  promptUpdate,
  resource,
  resourceInput,
  resourceUpdate,
  tool,
  toolInput,
  toolUpdate,
} from '../schemas/entries.ts';
import { entryWarnings } from '../schemas/entry-members.ts';
import { deleteResult, deleteWarnings } from '../schemas/envelope.ts';
import { defineOperation, PAGE_QUERY, type QueryParameter } from './operation.ts';

const NAMESPACE = {
  description: 'Namespace of the entry. Default: `default`, or else the only namespace with an entry of this name.',
} satisfies QueryParameter;
const NAME = {
  description:
    'Name of the entry in place of that in the path, for the names `.` and `..` of upstreams, which a path cannot contain.',
} satisfies QueryParameter;
const URI = {
  description: 'Location of the resource, if several resources share the name.',
} satisfies QueryParameter;
const LIST = {
  namespace: { description: 'Filter by namespace.' },
  include: {
    description:
      '`shadowed` includes entries that are not served because an entry registered earlier has the same key. `upstream` includes the upstream values of discovered entries.',
    values: ['shadowed', 'upstream', 'shadowed,upstream'],
  },
  only: {
    description:
      '`shadowed` lists only the entries that are not served because an entry registered earlier has the same key.',
    values: ['shadowed'],
  },
  ...PAGE_QUERY,
} satisfies Record<string, QueryParameter>;
const INCLUDE = {
  description:
    '`upstream` includes the upstream values of the members that can be overridden on a discovered entry, as the read-only member `upstream`.',
  values: ['upstream'],
} satisfies QueryParameter;

const UNKNOWN_MEMBERS = {
  description: '`keep` stores unknown members with a warning, as on creation.',
  values: ['keep'],
} satisfies QueryParameter;

/** Schemas and query parameters of a kind of entry. */
interface EntryKind<
  One extends z.ZodType,
  Input extends z.ZodType,
  Update extends z.ZodType,
  Enable extends z.ZodType,
  Select extends Readonly<Record<string, QueryParameter>>,
> {
  readonly kind: 'tool' | 'resource' | 'prompt';
  readonly one: One;
  readonly input: Input;
  readonly update: Update;
  readonly enable: Enable;
  /** Query parameters that select one of several entries with the same name. */
  readonly select: Select;
}

/** CRUD operations of tools, resources and prompts. */
function entryOperations<
  One extends z.ZodType,
  Input extends z.ZodType,
  Update extends z.ZodType,
  Enable extends z.ZodType,
  Select extends Readonly<Record<string, QueryParameter>>,
>({ kind, one, input, update, enable, select }: EntryKind<One, Input, Update, Enable, Select>) {
  const plural = `${kind}s`;
  const Name = kind[0]?.toUpperCase() + kind.slice(1);
  const path = `/api/v1/${plural}`;
  return {
    list: defineOperation({
      id: `list${Name}s`,
      method: 'GET',
      path,
      right: 'read',
      tag: plural,
      summary: `List ${plural}`,
      description: 'Entries are sorted by registration. Discovered entries keep the order of their upstream.',
      query: LIST,
      responses: { 200: { description: `List of ${plural}`, data: z.array(one), paged: true } },
      errors: [],
    }),
    create: defineOperation({
      id: `create${Name}`,
      method: 'POST',
      path,
      right: 'change_registry',
      tag: plural,
      summary: `Register a ${kind}`,
      description:
        'Creates the namespace if it does not exist. Unknown members are stored with a warning, unless they begin with `x-`.',
      body: { kind, schema: input },
      responses: { 201: { description: `Registered ${kind}`, data: one, location: true, warnings: entryWarnings } },
      errors: ['CONFLICT'],
    }),
    get: defineOperation({
      id: `get${Name}`,
      method: 'GET',
      path: `${path}/{name}`,
      right: 'read',
      tag: plural,
      summary: `Get a ${kind}`,
      query: { name: NAME, ...select, include: INCLUDE },
      responses: { 200: { description: `The ${kind}`, data: one } },
      errors: ['NOT_FOUND', 'CONFLICT'],
    }),
    update: defineOperation({
      id: `update${Name}`,
      method: 'PUT',
      path: `${path}/{name}`,
      right: 'change_registry',
      tag: plural,
      summary: `Replace a ${kind}`,
      description: `Changing \`name\` renames the ${kind}, changing \`namespace\` moves it. On a discovered ${kind}, values that differ from the upstream are stored as overrides and survive rediscovery. Unknown members that the ${kind} does not have and that do not begin with \`x-\` are rejected, since they are probably misspelled.`,
      query: { name: NAME, ...select, unknown_members: UNKNOWN_MEMBERS },
      body: { kind, schema: update },
      responses: { 200: { description: `Updated ${kind}`, data: one, warnings: entryWarnings } },
      errors: ['NOT_FOUND', 'CONFLICT'],
    }),
    remove: defineOperation({
      id: `delete${Name}`,
      method: 'DELETE',
      path: `${path}/{name}`,
      right: 'change_registry',
      tag: plural,
      summary: `Delete a ${kind}`,
      description: `A discovered ${kind} is registered again by the next discovery of its forward, with the changes of operators. To hide it, set \`enabled\` to false.`,
      query: { name: NAME, ...select },
      responses: {
        200: { description: `Name of the deleted ${kind}`, data: deleteResult, warnings: deleteWarnings },
      },
      errors: ['NOT_FOUND', 'CONFLICT'],
    }),
    enable: defineOperation({
      id: `enable${Name}s`,
      method: 'POST',
      path: `${path}/enabled`,
      right: 'change_registry',
      tag: plural,
      summary: `Enable or disable ${plural}`,
      description: `Changes all selected ${plural}, or none. A disabled ${kind} is in no MCP list and not found by any MCP method or action; it keeps its key. Disabling it covers the copies that actions made of it, and lasts until it is enabled or its forward is deleted.`,
      body: { kind: `selection of ${plural}`, schema: enable },
      responses: { 200: { description: `Number of selected ${plural}`, data: enabledResult } },
      errors: ['NOT_FOUND', 'CONFLICT'],
    }),
  };
}

/** `/api/v1/tools`. */
export const toolOperations = entryOperations({
  kind: 'tool',
  one: tool,
  input: toolInput,
  update: toolUpdate,
  enable: enabledByName,
  select: { namespace: NAMESPACE },
});

/** `/api/v1/resources`. */
export const resourceOperations = entryOperations({
  kind: 'resource',
  one: resource,
  input: resourceInput,
  update: resourceUpdate,
  enable: enabledByUri,
  select: { namespace: NAMESPACE, uri: URI },
});

/** `/api/v1/prompts`. */
export const promptOperations = entryOperations({
  kind: 'prompt',
  one: prompt,
  input: promptInput,
  update: promptUpdate,
  enable: enabledByName,
  select: { namespace: NAMESPACE },
});
