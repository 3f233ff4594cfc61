import { CLIENT_METHODS } from '@sluice/protocol/mcp/methods';
import { z } from 'zod';
import { MANAGEMENT_LISTENER, REPLICA_LISTENER } from '../../../exchange/exchange.ts';
import { addressSchema } from '../../../http/address.ts';
import { conditions } from '../../../http/chain.ts';
import { cluster } from '../../../http/clusters.ts';
import { corsSettings } from '../../../http/filters/cors.ts';
import { headersSettings, pathRewriteSettings, staticResponseSettings } from '../../../http/filters/rewrite.ts';
import { loadBalancerSettings, routerSettings } from '../../../http/filters/route.ts';
import { byteLimit } from '../../../http/settings.ts';
import { mcpSettings } from '../../../mcp/methods/parse.ts';

/** Filters without settings. */
const plain = z.strictObject({
  filter: z.enum(['service_namespace', 'service_well_known', 'service_evaluator', 'service_intercept']),
  conditions,
});

const methods = z.strictObject({
  filter: z.literal('service_methods'),
  mcp_methods: z
    .array(
      z.string().refine((method) => CLIENT_METHODS.has(method), {
        error: `must be a known method; known methods: ${[...CLIENT_METHODS].join(', ')}`,
      }),
    )
    .min(1, { error: 'must name at least one method' })
    .optional(),
  conditions,
});

const settings = [
  corsSettings,
  mcpSettings,
  staticResponseSettings,
  routerSettings,
  loadBalancerSettings,
  headersSettings,
  pathRewriteSettings,
  methods,
  plain,
] as const;

/** Names of all filters. */
export const FILTERS: readonly string[] = settings.flatMap(({ shape }) => [...shape.filter._zod.values].map(String));

/** Schema of a filter of a chain. */
export const filter = z.discriminatedUnion('filter', settings, {
  error: ({ code, input }) => {
    if (code !== 'invalid_union') return undefined;
    const named = typeof input === 'object' && input !== null && 'filter' in input;
    return `${named ? 'must be a known filter' : 'is missing'}; known filters: ${FILTERS.join(', ')}`;
  },
});

/** Settings of any filter. */
export type FilterSettings = z.output<typeof filter>;
/** Settings of the filter with this name. */
export type SettingsOf<Name extends FilterSettings['filter']> = Extract<FilterSettings, { filter: Name }>;

const name = z.string().min(1, { error: 'must not be empty' });
const milliseconds = z
  .int()
  .min(1)
  .max(2 ** 31 - 1);
const file = name.refine((path) => !path.includes('\0'), { error: 'must be a path' });

const listener = z.strictObject({
  name: name.refine((own) => own !== MANAGEMENT_LISTENER && own !== REPLICA_LISTENER, {
    error: `must not be ${MANAGEMENT_LISTENER} or ${REPLICA_LISTENER}, which are the names of listeners of the service`,
  }),
  address: addressSchema(true),
  filter_chains: z.array(name).min(1, { error: 'must name at least one chain' }),
  protocol: z.literal('http', { error: 'must be http' }).optional(),
  tls: z
    .strictObject({
      certificates: z
        .array(z.strictObject({ cert_path: file, key_path: file }))
        .length(1, { error: 'must have exactly one certificate' }),
    })
    .optional(),
  downstream_read_timeout_ms: milliseconds.optional(),
  max_connections: z.int().min(1).optional(),
});

const chain = z.strictObject({ name, filters: z.array(filter).min(1, { error: 'must have at least one filter' }) });

const MAX_REQUEST_BYTES = 4 * 1024 * 1024;
const MAX_RESPONSE_BYTES = 64 * 1024 * 1024;

/** Schema of a pipeline file. It does not check references between its parts. */
export const pipelineFile = z.strictObject({
  listeners: z.array(listener).min(1, { error: 'must have at least one listener' }),
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
  // Accepted and ignored.
  admin: z.unknown().optional(),
  runtime: z.unknown().optional(),
});

/** Content of a pipeline file. */
export type PipelineFile = z.output<typeof pipelineFile>;
