import { z } from 'zod';
import { inferenceConfig, inferenceConfigInput } from '../inference-config.ts';
import { interaction, interactionsCleared } from '../interaction.ts';
import { operation } from './operation.ts';

const tag = 'inference';
const path = '/api/v1/interactions';

/** `/api/v1/interactions` and `/api/v1/config/inference` (specification, "Endpoints"; decisions 4.4). */
export const inferenceOperations = {
  interactions: operation({
    id: 'listInteractions',
    method: 'GET',
    path,
    tag,
    summary: 'List the completions that were asked for through the inference listener',
    description:
      'The latest 1000, unless the service is told otherwise, are kept in memory. When their bodies have more than 256 MiB together, the oldest lose them.',
    query: {
      conversation_id: { description: 'Only those of this conversation.' },
      completion_id: { description: 'Only those whose answer has this id.' },
      limit: { description: 'How many at most, the newest: 1 or more, all when it is anything else.' },
      bodies: { description: 'Whether to answer the bodies too, as is done unless this says no.', values: ['false'] },
    },
    answers: { 200: { description: 'The interactions, oldest first.', data: z.array(interaction) } },
    failures: [],
  }),
  clearInteractions: operation({
    id: 'clearInteractions',
    method: 'DELETE',
    path,
    tag,
    summary: 'Forget all interactions',
    answers: { 200: { description: 'They are gone.', data: interactionsCleared } },
    failures: [],
  }),
  configure: operation({
    id: 'configureInference',
    method: 'POST',
    path: '/api/v1/config/inference',
    tag,
    summary: 'Change where the inference listener forwards to, or how many interactions are kept',
    description:
      'New requests go by it; those under way finish as they began. It is not kept over a restart. A body with neither member, or with another one, is refused.',
    body: { kind: 'inference configuration', schema: inferenceConfigInput },
    answers: { 200: { description: 'What counts now.', data: inferenceConfig } },
    failures: [],
  }),
};
