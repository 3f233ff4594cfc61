import { z } from 'zod';
import { jsonObject } from '../schemas/json.ts';
import { metrics, readiness, statistics } from '../schemas/observability.ts';
import { pluginManifest } from '../schemas/plugins.ts';
import { replica } from '../schemas/replicas.ts';
import { MAX_TIME_SERIES, timeSeries, timeSeriesGrouping } from '../schemas/time-series.ts';
import { defineOperation } from './operation.ts';

const tag = 'service';

/** Health checks, statistics, metrics and the OpenAPI document. */
export const observabilityOperations = {
  health: defineOperation({
    id: 'getHealth',
    method: 'GET',
    path: '/healthz',
    right: 'open',
    tag,
    summary: 'Liveness check',
    responses: { 200: { description: 'Alive', data: z.object({ status: z.literal('ok') }) } },
    errors: [],
  }),
  healthAlias: defineOperation({
    id: 'getHealthAlias',
    method: 'GET',
    path: '/health',
    right: 'open',
    tag,
    summary: 'Liveness check (alias of `/healthz`)',
    responses: { 200: { description: 'Alive', data: z.object({ status: z.literal('ok') }) } },
    errors: [],
  }),
  readiness: defineOperation({
    id: 'getReadiness',
    method: 'GET',
    path: '/readyz',
    right: 'open',
    tag,
    summary: 'Readiness check',
    responses: { 200: { description: 'Ready', data: readiness } },
    errors: ['UNAVAILABLE'],
  }),
  statistics: defineOperation({
    id: 'getStatistics',
    method: 'GET',
    path: '/api/v1/management/statistics',
    right: 'read',
    tag,
    summary: 'Get statistics',
    responses: { 200: { description: 'Number of entries in all namespaces', data: statistics } },
    errors: [],
  }),
  metrics: defineOperation({
    id: 'getMetrics',
    method: 'GET',
    path: '/api/v1/metrics',
    right: 'read',
    tag,
    summary: 'Get metrics',
    responses: { 200: { description: 'Counters since the process started', data: metrics } },
    errors: [],
  }),
  replicas: defineOperation({
    id: 'listReplicas',
    method: 'GET',
    path: '/api/v1/replicas',
    right: 'read',
    tag,
    summary: 'List the replicas',
    description: 'The processes that share the database. Empty for a service with a registry of its own.',
    responses: { 200: { description: 'Replicas, the oldest first', data: z.array(replica) } },
    errors: [],
  }),
  timeSeries: defineOperation({
    id: 'getTimeSeries',
    method: 'GET',
    path: '/api/v1/time-series',
    right: 'read',
    tag,
    summary: 'Get time series of the last hour',
    description: `Tool calls, completions, event-loop delay and memory in steps of 10 s or multiples of that. The last step is the current one and not complete. At most ${MAX_TIME_SERIES} series of one grouping are stored; all other calls are in the series \`other\`. With \`by=method\`, the series count all MCP requests of clients instead of tool calls.`,
    query: {
      since: { description: 'Begin: an ISO 8601 time, or a duration before now such as `15m`. Default: `1h`.' },
      step: { description: 'Duration of a step: a multiple of 10 s up to 1 h, such as `10s` (default) or `1m`.' },
      by: { description: 'Groups the calls. Default: one series of all.', values: timeSeriesGrouping.options },
    },
    responses: { 200: { description: 'Time series', data: timeSeries } },
    errors: [],
  }),
  plugins: defineOperation({
    id: 'listPlugins',
    method: 'GET',
    path: '/api/v1/plugins',
    right: 'read',
    tag,
    summary: 'List plugins of the web console',
    responses: { 200: { description: 'Manifests; none without the web console', data: z.array(pluginManifest) } },
    errors: [],
  }),
  document: defineOperation({
    id: 'getOpenApi',
    method: 'GET',
    path: '/openapi.json',
    right: 'read',
    tag,
    summary: 'Get the OpenAPI document',
    responses: { 200: { description: 'OpenAPI 3.1 document', data: jsonObject, raw: true } },
    errors: [],
  }),
};
