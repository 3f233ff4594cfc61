import { z } from 'zod';
import { hostList } from '../addresses.ts';
import { InvalidSettingError, type Setting } from '../setting.ts';
import { cluster } from './cluster.ts';
import { condition, method, path } from './condition.ts';
import { editableHeader, headerField, headerName, wantedHeaders } from './header-field.ts';
import { origin } from './origin.ts';
import { settingText } from './setting-text.ts';

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

const FILTERS = [
  'cors',
  'mcp',
  'static_response',
  'router',
  'load_balancer',
  'headers',
  'path_rewrite',
  ...PLAIN_FILTERS,
];

const conditions = z.array(condition).optional();

/** A number of bytes that can be held at once. */
export const bytes = z
  .int()
  .min(1)
  .max(2 ** 31);

/** In a list of header names: a trailing `*` stands for all that begin so. */
const headerPattern = headerName.regex(/^[^*]*\*?$/, { error: 'has a * that is not at its end' });

const cors = z
  .strictObject({
    filter: z.literal('cors'),
    conditions,
    allow_origins: z.array(origin).min(1, { error: 'names no origin' }),
    allow_methods: z.array(method).default(['GET', 'HEAD', 'POST']),
    allow_headers: z.array(headerPattern).default([]),
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
  max_body_bytes: bytes.optional(),
});

const staticResponse = z
  .strictObject({
    filter: z.literal('static_response'),
    conditions,
    status: z.int().min(200).max(599),
    headers: z.array(headerField).default([]),
    body: z.string().default(''),
  })
  .refine(({ status, body }) => body === '' || ![204, 205, 304].includes(status), {
    path: ['body'],
    error: 'cannot be sent with status 204, 205 or 304, which have none',
  });

const host: Setting<string> = {
  accepts: 'host, host:port, [ipv6] or [ipv6]:port',
  parse: (text) => {
    const [only, ...more] = hostList.parse(text);
    if (only === undefined || more.length > 0 || text.includes(','))
      throw new InvalidSettingError('names several hosts');
    return only;
  },
};

const router = z.strictObject({
  filter: z.literal('router'),
  conditions,
  routes: z
    .array(
      z.strictObject({
        path_prefix: path,
        host: settingText(host).optional(),
        headers: wantedHeaders.optional(),
        cluster: z.string().min(1, { error: 'is empty' }),
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
  response_remove: z.array(editableHeader).default([]),
});

const pattern = z.string().superRefine((text, { addIssue }) => {
  try {
    new RegExp(text, 'u');
  } catch {
    addIssue({ code: 'custom', message: 'is not a regular expression' });
  }
});

/** Paths are made of it. */
const replacement = z.string().regex(/^[!"$->@-~]*$/, { error: 'has characters that a path cannot have' });

const pathRewrite = z
  .strictObject({
    filter: z.literal('path_rewrite'),
    conditions,
    strip_prefix: path.optional(),
    add_prefix: path.optional(),
    replace: z.strictObject({ pattern, replacement }).optional(),
  })
  .refine(
    ({ strip_prefix, add_prefix, replace }) =>
      [strip_prefix, add_prefix, replace].filter((edit) => edit !== undefined).length === 1,
    { error: 'needs exactly one of strip_prefix, add_prefix, replace' },
  );

const plain = z.strictObject({ filter: z.enum(PLAIN_FILTERS), conditions });

/** One filter of a chain with its settings (decisions 1.4, the table of filters). */
export const filter = z.discriminatedUnion(
  'filter',
  [cors, mcp, staticResponse, router, loadBalancer, headers, pathRewrite, plain],
  {
    error: ({ code, input }) => {
      if (code !== 'invalid_union') return undefined;
      const named = typeof input === 'object' && input !== null && 'filter' in input;
      return `${named ? 'is not the name of a filter' : 'is missing'}; filters: ${FILTERS.join(', ')}`;
    },
  },
);

export type FilterSettings = z.output<typeof filter>;
/** The settings of the filter of this name. */
export type SettingsOf<Name extends FilterSettings['filter']> = Extract<FilterSettings, { filter: Name }>;
