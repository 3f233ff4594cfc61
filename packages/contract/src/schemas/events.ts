import { z } from 'zod';
import { EVENT_TOPICS } from '../values.ts';
import { forwardChange } from './forward-history.ts';
import { serviceHealth } from './services.ts';
import { taskEvent } from './tasks.ts';
import { toolCallEvent } from './tool-calls.ts';

/** Topics of the event stream. The topic of an event is its type. */
export const eventTopic = z.enum(EVENT_TOPICS);

/** Number of stored changes, and maximum backlog of a client, in addition to the tool-call events. */
export const STATE_EVENT_CAPACITY = 1000;

/** Maximum number of concurrent clients of the event stream. */
export const MAX_EVENT_STREAMS = 100;

/** Maximum number of names per member of a registry event. */
export const MAX_EVENT_NAMES = 100;

const timestamp = z.iso.datetime({ precision: 3 }).describe('UTC');
const names = z.array(z.string()).max(MAX_EVENT_NAMES).optional();

/** Data of a `forwards` event. */
export const forwardEvent = z
  .object({ name: z.string(), change: forwardChange })
  .meta({ id: 'ForwardEvent', description: 'The availability of a forward changed, or it was discovered.' });

/** Data of a `services` event. */
export const serviceEvent = z
  .object({
    timestamp,
    name: z.string(),
    serviceType: z.string(),
    serviceSubType: z.string().optional(),
    languageName: z.string().optional(),
    health: serviceHealth,
    reason: z.string().optional().describe('Why the service is not healthy, at most 500 characters'),
  })
  .meta({ id: 'ServiceEvent', description: 'The health of a capability service changed.' });

/** Data of an `evaluators` event. */
export const evaluatorsEvent = z
  .object({
    timestamp,
    revision: z.number().int().describe('The revision that became active'),
    loaded: z.number().int().describe('Number of evaluators that run'),
    skipped: z.number().int().describe('Number of evaluators that could not be loaded'),
  })
  .meta({ id: 'EvaluatorsEvent', description: 'A set of evaluators became active.' });

/** Data of a `registry` event. */
export const registryEvent = z
  .object({
    timestamp,
    namespaces: names.describe('Namespaces that were added, changed or deleted'),
    forwards: names.describe('Forwards that were added, changed or deleted'),
    services: names.describe('Capability services that were added, changed or deleted'),
    tools: names.describe('Namespaces whose tools changed'),
    resources: names.describe('Namespaces whose resources changed'),
    prompts: names.describe('Namespaces whose prompts changed'),
    truncated: z
      .literal(true)
      .optional()
      .describe(`More than ${MAX_EVENT_NAMES} names of one kind; the rest is left out`),
  })
  .meta({
    id: 'RegistryEvent',
    description: 'The registry changed. Changes in quick succession are combined. Unchanged members are omitted.',
  });

/** Data of a `missed` event. */
export const missedEvents = z
  .object({
    topics: z.array(eventTopic).describe('Topics of which events are missing'),
    count: z.number().int().optional().describe('Number of missing events; omitted if it is unknown'),
  })
  .meta({
    id: 'MissedEvents',
    description:
      'Events were skipped: the client was too slow, or resumes after more events than are stored or after a restart ' +
      'of the service.',
  });

/** Payload of an event of the stream. */
export const streamedEvent = z.union([
  toolCallEvent,
  taskEvent,
  forwardEvent,
  serviceEvent,
  evaluatorsEvent,
  registryEvent,
  missedEvents,
]);

export type EventTopic = z.infer<typeof eventTopic>;
export type ForwardEvent = z.infer<typeof forwardEvent>;
export type ServiceEvent = z.infer<typeof serviceEvent>;
export type EvaluatorsEvent = z.infer<typeof evaluatorsEvent>;
export type RegistryEvent = z.infer<typeof registryEvent>;
export type MissedEvents = z.infer<typeof missedEvents>;
