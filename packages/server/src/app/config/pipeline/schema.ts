import { z } from 'zod';
import { address } from '../../../http/address.ts';
import { cluster } from '../../../http/clusters.ts';
import { condition } from '../../../http/conditions.ts';
import { corsSettings } from '../../../http/filters/cors.ts';
import { headersSettings, pathRewriteSettings, staticResponseSettings } from '../../../http/filters/rewrite.ts';
import { loadBalancerSettings, routerSettings } from '../../../http/filters/route.ts';
import { byteLimit } from '../../../http/filters/schema.ts';
import { mcpSettings } from '../../../mcp/methods/parse.ts';

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

const plain = z.strictObject({ filter: z.enum(PLAIN_FILTERS), conditions: z.array(condition).optional() });

/** One filter of a chain with its settings (decisions 1.4, the table of filters). */
export const filter = z.discriminatedUnion(
  'filter',
  [
    corsSettings,
    mcpSettings,
    staticResponseSettings,
    routerSettings,
    loadBalancerSettings,
    headersSettings,
    pathRewriteSettings,
    plain,
  ],
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
      max_request_bytes: byteLimit.default(MAX_REQUEST_BYTES),
      max_response_bytes: byteLimit.default(MAX_RESPONSE_BYTES),
    })
    .prefault({}),
  shutdown_timeout_secs: z.int().min(0).max(86_400).default(30),
  insecure_options: z.strictObject({ skip_pipeline_validation: z.boolean().default(false) }).prefault({}),
  // Known, and without a meaning here.
  admin: z.unknown().optional(),
  runtime: z.unknown().optional(),
});

export type PipelineFile = z.output<typeof pipelineFile>;
