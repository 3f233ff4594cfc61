import { z } from 'zod';
import { corsOrigin, hostList, InvalidSettingError, type Setting } from '../../../http/address.ts';
import { address, cluster, settingText } from '../../../http/clusters.ts';

/** Fields that say where a message ends and what becomes of its connection: no file can set or remove them. */
const FRAMING: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'host',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** A header's name (RFC 9110 5.1). */
export const headerName = z.string().regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, { error: 'is not a header name' });

/** The name of a header that can be edited. */
export const editableHeader = headerName.refine((name) => !FRAMING.has(name.toLowerCase()), {
  error: 'is a header that only the connection itself sets',
});

/** A header that is added or set. */
export const headerField = z.strictObject({
  name: editableHeader,
  value: z.string().regex(/^(?![\t ])[\t\x20-\x7e\x80-\xff]*(?<![\t ])$/, {
    error: 'has characters that a header cannot have, or blanks at an end',
  }),
});

/** Headers that a request has to have, each with this value. */
export const wantedHeaders = z.record(headerName, z.string()).superRefine((headers, { addIssue }) => {
  const seen = new Set<string>();
  for (const name of Object.keys(headers)) {
    // It would have to have two values at once.
    if (seen.has(name.toLowerCase())) addIssue({ code: 'custom', path: [name], message: 'stands there twice' });
    seen.add(name.toLowerCase());
  }
});

/** The path of a request, or what it begins with. */
export const path = z.string().regex(/^\/[!"$->@-~]*$/, {
  error: 'is not a path: / and then characters as they are sent, others as %20 and the like',
});

export const method = z.string().regex(/^[A-Z][A-Z-]*$/, { error: 'is not a method in capital letters, such as GET' });

const match = z
  .strictObject({
    path: path.optional(),
    path_prefix: path.optional(),
    methods: z.array(method).min(1, { error: 'names no method' }).optional(),
    headers: wantedHeaders.optional(),
  })
  .refine((conditions) => Object.values(conditions).some((value) => value !== undefined), {
    error: 'has none of path, path_prefix, methods, headers',
  });

/** What a request has to be for a condition. */
export type Match = z.output<typeof match>;
export type Condition = { readonly when: Match } | { readonly unless: Match };

/** When a filter is used: all conditions of a list have to hold, and all members of each (decisions 1.4). */
export const condition = z
  .strictObject({ when: match.optional(), unless: match.optional() })
  .transform(({ when, unless }, { addIssue }): Condition => {
    if (when && !unless) return { when };
    if (unless && !when) return { unless };
    addIssue({
      code: 'custom',
      message: when ? 'has both when and unless; make two conditions of it' : 'has neither when nor unless',
    });
    return z.NEVER;
  });

/** A name that no origin has, in the place of the `*` while the rest is looked at. */
const ANY = 'any-subdomain';

const allowedOrigin: Setting<string> = {
  accepts: '*, an origin such as https://console.example.com, or its subdomains: https://*.example.com',
  parse: (text) => {
    const subdomains = /^[a-z][a-z\d+.-]*:\/\/\*\./i.test(text);
    if (text !== '*' && text.replace('://*.', '://').includes('*'))
      throw new InvalidSettingError('has a * in a place of its own');
    return subdomains ? corsOrigin.parse(text.replace('*', ANY)).replace(ANY, '*') : corsOrigin.parse(text);
  },
};

/** An entry of `allow_origins` (decisions 1.4, "cors"), spelled as browsers spell origins. */
export const origin = settingText(allowedOrigin);

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

const name = z.string().min(1, { error: 'is empty' });
const milliseconds = z
  .int()
  .min(1)
  .max(2 ** 31 - 1);
const file = name.refine((path) => !path.includes('\0'), { error: 'is not a path' });

/** The management API's own listener has this name in the log, in addresses and in metrics. */
const MANAGEMENT = 'management';

const listener = z.strictObject({
  name: name.refine((own) => own !== MANAGEMENT, {
    error: `is ${MANAGEMENT}, which is what the management API's own listener is called; choose another name`,
  }),
  address: address(true),
  filter_chains: z.array(name).min(1, { error: 'names no chain' }),
  protocol: z.literal('http', { error: 'is not http, which is all there is' }).optional(),
  tls: z
    .strictObject({
      certificates: z
        .array(z.strictObject({ cert_path: file, key_path: file }))
        .length(1, { error: 'needs exactly one certificate' }),
    })
    .optional(),
  downstream_read_timeout_ms: milliseconds.optional(),
  max_connections: z.int().min(1).optional(),
});

const chain = z.strictObject({ name, filters: z.array(filter).min(1, { error: 'has no filter' }) });

const MAX_REQUEST_BYTES = 4 * 1024 * 1024;
const MAX_RESPONSE_BYTES = 64 * 1024 * 1024;

/** The form of a pipeline file (decisions 1.4); what refers to what is not looked at here. */
export const pipelineFile = z.strictObject({
  listeners: z.array(listener).min(1, { error: 'has no listener' }),
  filter_chains: z.array(chain),
  clusters: z.array(cluster).default([]),
  body_limits: z
    .strictObject({
      max_request_bytes: bytes.default(MAX_REQUEST_BYTES),
      max_response_bytes: bytes.default(MAX_RESPONSE_BYTES),
    })
    .prefault({}),
  shutdown_timeout_secs: z.int().min(0).max(86_400).default(30),
  insecure_options: z.strictObject({ skip_pipeline_validation: z.boolean().default(false) }).prefault({}),
  // Known, and without a meaning here.
  admin: z.unknown().optional(),
  runtime: z.unknown().optional(),
});

export type PipelineFile = z.output<typeof pipelineFile>;
