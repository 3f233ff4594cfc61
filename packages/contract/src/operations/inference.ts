import { z } from 'zod';
import { clearResult, inferenceConfig, inferenceConfigInput, interaction } from '../schemas/inference.ts';
import { defineOperation } from './operation.ts';

const tag = 'inference';
const path = '/api/v1/interactions';

/** `/api/v1/interactions` and `/api/v1/config/inference`. */
export const inferenceOperations = {
  interactions: defineOperation({
    id: 'listInteractions',
    method: 'GET',
    path,
    right: 'read_bodies',
    tag,
    summary: 'List interactions',
    description:
      'Chat completions recorded by the inference listener. The latest are stored in memory (default 1000), of each replica. When their bodies exceed 256 MiB in total, the oldest bodies are evicted.',
    query: {
      conversation_id: { description: 'Filter by conversation id.' },
      completion_id: { description: 'Filter by completion id.' },
      limit: { description: 'Maximum number of interactions, the newest: a whole number from 1.' },
      bodies: { description: 'Include request and response bodies (default true).', values: ['true', 'false'] },
    },
    responses: { 200: { description: 'Interactions, oldest first', data: z.array(interaction), ofAllReplicas: true } },
    errors: [],
  }),
  clearInteractions: defineOperation({
    id: 'clearInteractions',
    method: 'DELETE',
    path,
    right: 'administer',
    tag,
    summary: 'Delete all interactions',
    responses: { 200: { description: 'Deleted', data: clearResult, ofAllReplicas: true } },
    errors: [],
  }),
  configure: defineOperation({
    id: 'configureInference',
    method: 'POST',
    path: '/api/v1/config/inference',
    right: 'administer',
    tag,
    summary: 'Configure the inference listener',
    description:
      'Sets the upstream, the interaction capacity, or both. Applies to new requests and is lost on restart. Unknown members are rejected.',
    body: { kind: 'inference configuration', schema: inferenceConfigInput },
    responses: { 200: { description: 'Current configuration', data: inferenceConfig } },
    errors: [],
  }),
};
