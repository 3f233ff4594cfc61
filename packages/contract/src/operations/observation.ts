import { z } from 'zod';
import { jsonObject } from '../json.ts';
import { metrics } from '../metrics.ts';
import { statistics } from '../statistics.ts';
import { operation } from './operation.ts';

const tag = 'service';

/** What the service says of itself (specification, "Endpoints"; decisions 4.4). */
export const observationOperations = {
  health: operation({
    id: 'getHealth',
    method: 'GET',
    path: '/healthz',
    tag,
    summary: 'Whether the process lives; also while it shuts down',
    answers: { 200: { description: 'It does.', data: z.object({ status: z.literal('ok') }) } },
    failures: [],
  }),
  healthAlias: operation({
    id: 'getHealthAlias',
    method: 'GET',
    path: '/health',
    tag,
    summary: 'The same as `/healthz`',
    answers: { 200: { description: 'It lives.', data: z.object({ status: z.literal('ok') }) } },
    failures: [],
  }),
  readiness: operation({
    id: 'getReadiness',
    method: 'GET',
    path: '/readyz',
    tag,
    summary: 'Whether the service takes work: loaded, listening and not shutting down',
    answers: { 200: { description: 'It does.', data: z.object({ status: z.literal('ready') }) } },
    failures: ['UNAVAILABLE'],
  }),
  statistics: operation({
    id: 'getStatistics',
    method: 'GET',
    path: '/api/v1/management/statistics',
    tag,
    summary: 'How much is served, over all namespaces',
    answers: { 200: { description: 'The counts.', data: statistics } },
    failures: [],
  }),
  metrics: operation({
    id: 'getMetrics',
    method: 'GET',
    path: '/api/v1/metrics',
    tag,
    summary: 'Counters since the start of the process',
    answers: { 200: { description: 'The counters.', data: metrics } },
    failures: [],
  }),
  document: operation({
    id: 'getOpenApi',
    method: 'GET',
    path: '/openapi.json',
    tag,
    summary: 'This document',
    answers: { 200: { description: 'OpenAPI 3.1.', data: jsonObject, bare: true } },
    failures: [],
  }),
};
