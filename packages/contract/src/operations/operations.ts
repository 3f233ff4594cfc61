import { promptOperations, resourceOperations, toolOperations } from './entries.ts';
import { evaluatorOperations } from './evaluators.ts';
import { forwardOperations } from './forwards.ts';
import { inferenceOperations } from './interactions.ts';
import { namespaceOperations } from './namespaces.ts';
import { observationOperations } from './observation.ts';
import type { Operation } from './operation.ts';
import { serviceOperations } from './services.ts';
import { toolCallOperations } from './tool-calls.ts';

/** The management API, group by group: the one source of routes, document and client. */
export const operations = {
  namespaces: namespaceOperations,
  forwards: forwardOperations,
  tools: toolOperations,
  resources: resourceOperations,
  prompts: promptOperations,
  services: serviceOperations,
  evaluators: evaluatorOperations,
  toolCalls: toolCallOperations,
  inference: inferenceOperations,
  observation: observationOperations,
};

/** Every operation, in the order in which the document shows them. */
export const allOperations: readonly Operation[] = Object.values(operations).flatMap((group) => Object.values(group));
