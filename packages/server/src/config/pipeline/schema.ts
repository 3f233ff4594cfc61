import { z } from 'zod';
import { address, cluster } from './cluster.ts';
import { bytes, filter } from './filter-settings.ts';

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
