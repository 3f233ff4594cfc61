import { blockOperations } from './blocks.ts';
import { promptOperations, resourceOperations, toolOperations } from './entries.ts';
import { evaluatorOperations } from './evaluators.ts';
import { eventOperations } from './events.ts';
import { forwardOperations } from './forwards.ts';
import { identityOperations } from './identity.ts';
import { inferenceOperations } from './inference.ts';
import { logOperations } from './logs.ts';
import { maintenanceOperations } from './maintenance.ts';
import { namespaceOperations } from './namespaces.ts';
import { observabilityOperations } from './observability.ts';
import type { Operation } from './operation.ts';
import { serviceOperations } from './services.ts';
import { sessionOperations } from './session.ts';
import { stateOperations } from './state.ts';
import { taskOperations } from './tasks.ts';
import { toolCallOperations } from './tool-calls.ts';

/** All operations of the management API, by group. */
export const operations = {
  namespaces: namespaceOperations,
  forwards: forwardOperations,
  tools: toolOperations,
  resources: resourceOperations,
  prompts: promptOperations,
  services: serviceOperations,
  evaluators: evaluatorOperations,
  identity: identityOperations,
  state: stateOperations,
  toolCalls: toolCallOperations,
  tasks: taskOperations,
  events: eventOperations,
  logs: logOperations,
  inference: inferenceOperations,
  observability: observabilityOperations,
  maintenance: maintenanceOperations,
  session: sessionOperations,
  blocks: blockOperations,
};

/** All operations in the order of the OpenAPI document. */
export const allOperations: readonly Operation[] = Object.values(operations).flatMap((group) => Object.values(group));
