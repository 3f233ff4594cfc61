import { z } from 'zod';
import { cluster } from './cluster.ts';
import { headerField, headerName } from './header-field.ts';

/** The filters that have no settings of their own. */
export const PLAIN_FILTERS = [
  'service_namespace',
  'service_well_known',
  'service_mcp_init',
  'service_subscribe',
  'service_completion',
  'service_relay',
  'service_evaluator',
  'service_tool_list',
  'service_tool_call',
  'service_resource_list',
  'service_resource_read',
  'service_prompt_list',
  'service_prompt_get',
  'service_intercept',
] as const;

const path = z.string().regex(/^\/[^?#\s]*$/, { error: 'is not a path that begins with /' });
const method = z.string().regex(/^[A-Z]+$/, { error: 'is not a method in capital letters, such as GET' });

const match = z
  .strictObject({
    path: path.optional(),
    path_prefix: path.optional(),
    methods: z.array(method).min(1, { error: 'names no method' }).optional(),
    headers: z.record(headerName, z.string()).optional(),
  })
  .refine((conditions) => Object.values(conditions).some((value) => value !== undefined), {
    error: 'has none of path, path_prefix, methods, headers',
  });

/** When a filter is used: all conditions of a list have to hold, and all members of each (decisions 1.4). */
const condition = z.union([z.strictObject({ when: match }), z.strictObject({ unless: match })], {
  error: 'is not a map with either when or unless, and in it any of path, path_prefix, methods, headers',
});

const conditions = z.array(condition).optional();

const origin = z.string().regex(/^(\*|[a-z][a-z\d+.-]*:\/\/(\*\.)?[^/?#@\s\\*]+)$/, {
  error: 'is not *, an origin, or one such as https://*.host',
});

const cors = z
  .strictObject({
    filter: z.literal('cors'),
    conditions,
    allow_origins: z.array(origin).min(1, { error: 'names no origin' }),
    allow_methods: z.array(method).default(['GET', 'HEAD', 'POST']),
    // A trailing * stands for all that begin so.
    allow_headers: z.array(z.union([headerName, z.string().regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+\*$/)])).default([]),
    expose_headers: z.array(headerName).default([]),
    allow_credentials: z.boolean().default(false),
    max_age: z.int().min(0).default(86_400),
    disallowed_origin_mode: z.enum(['omit', 'reject']).default('omit'),
    allow_null_origin: z.boolean().default(false),
  })
  .refine(({ allow_credentials, allow_origins }) => !(allow_credentials && allow_origins.includes('*')), {
    path: ['allow_credentials'],
    error: 'cannot be true while allow_origins has *; name the origins',
  });

const mcp = z.strictObject({
  filter: z.literal('mcp'),
  conditions,
  on_invalid: z.enum(['continue', 'reject']).default('continue'),
  max_body_bytes: z.int().min(1).optional(),
});

const staticResponse = z.strictObject({
  filter: z.literal('static_response'),
  conditions,
  status: z.int().min(200).max(599),
  headers: z.array(headerField).default([]),
  body: z.string().default(''),
});

const router = z.strictObject({
  filter: z.literal('router'),
  conditions,
  routes: z
    .array(
      z.strictObject({
        path_prefix: path,
        host: z.string().min(1).optional(),
        headers: z.record(headerName, z.string()).optional(),
        cluster: z.string().min(1),
      }),
    )
    .min(1, { error: 'has no route' }),
});

const loadBalancer = z.strictObject({
  filter: z.literal('load_balancer'),
  conditions,
  clusters: z.array(cluster).default([]),
});

const headers = z.strictObject({
  filter: z.literal('headers'),
  conditions,
  request_add: z.array(headerField).default([]),
  response_add: z.array(headerField).default([]),
  response_set: z.array(headerField).default([]),
  response_remove: z.array(headerName).default([]),
});

const pattern = z.string().superRefine((text, { addIssue }) => {
  try {
    new RegExp(text, 'u');
  } catch {
    addIssue({ code: 'custom', message: 'is not a regular expression' });
  }
});

const pathRewrite = z
  .strictObject({
    filter: z.literal('path_rewrite'),
    conditions,
    strip_prefix: path.optional(),
    add_prefix: path.optional(),
    replace: z.strictObject({ pattern, replacement: z.string() }).optional(),
  })
  .refine(
    ({ strip_prefix, add_prefix, replace }) =>
      [strip_prefix, add_prefix, replace].filter((edit) => edit !== undefined).length === 1,
    { error: 'needs exactly one of strip_prefix, add_prefix, replace' },
  );

const plain = z.strictObject({ filter: z.enum(PLAIN_FILTERS), conditions });

/** One filter of a chain with its settings (decisions 1.4, the table of filters). */
export const filter = z.discriminatedUnion('filter', [
  cors,
  mcp,
  staticResponse,
  router,
  loadBalancer,
  headers,
  pathRewrite,
  plain,
]);

export type FilterSettings = z.output<typeof filter>;
/** The settings of the filter of this name. */
export type SettingsOf<Name extends FilterSettings['filter']> = Extract<FilterSettings, { filter: Name }>;
export type Condition = z.output<typeof condition>;
/** What a request has to be for a condition. */
export type Match = z.output<typeof match>;
