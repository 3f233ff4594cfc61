import { randomBytes } from 'node:crypto';
import {
  type EvaluatorsEvent,
  type EventTopic,
  type ForwardEvent,
  type RegistryEvent,
  type ServiceEvent,
  STATE_EVENT_CAPACITY,
  type TaskEvent,
} from '@sluice/contract';
import { singleLine } from '@sluice/protocol/text';
import { EventRing } from './event-ring.ts';

/** Data of the events of each topic, except tool calls, which have a ring of their own. */
export interface StateEventData {
  readonly forwards: ForwardEvent;
  readonly services: ServiceEvent;
  readonly evaluators: EvaluatorsEvent;
  readonly registry: RegistryEvent;
  readonly tasks: TaskEvent;
}

/** The part of a set of evaluators that its event describes. */
interface ActiveEvaluators {
  readonly revision: number;
  readonly list: readonly unknown[];
  readonly skipped: readonly string[];
}

/** The part of a service entry that its event describes. */
type ChangedService = Pick<ServiceEvent, 'name' | 'serviceType' | 'serviceSubType' | 'languageName'>;

/** Longest reason, in characters. */
const MAX_REASON = 500;

/** A change of the service's state, serialized for event streams. */
export interface StateEvent {
  readonly topic: EventTopic;
  /** `event` and `data` lines with the empty line that ends the event. */
  readonly text: Buffer;
}

/** Changes of forwards, services, evaluators and the registry for event streams: the latest 1000. */
export class StateEvents {
  /** Identifies this process in the ids of events. */
  readonly origin: string = randomBytes(6).toString('base64url');
  readonly ring: EventRing<StateEvent> = new EventRing(STATE_EVENT_CAPACITY);

  /** A set of evaluators became active. */
  evaluatorsActivated({ revision, list, skipped }: ActiveEvaluators): void {
    const timestamp = new Date().toISOString();
    this.publish('evaluators', { timestamp, revision, loaded: list.length, skipped: skipped.length });
  }

  /** The health of a capability service changed. */
  serviceChanged(entry: ChangedService, { health, reason }: Pick<ServiceEvent, 'health' | 'reason'>): void {
    const { name, serviceType, serviceSubType, languageName } = entry;
    this.publish('services', {
      timestamp: new Date().toISOString(),
      name,
      serviceType,
      serviceSubType,
      languageName,
      health,
      reason: reason && singleLine(reason, MAX_REASON - 1),
    });
  }

  publish<Topic extends keyof StateEventData>(topic: Topic, data: StateEventData[Topic]): void {
    this.ring.add({ topic, text: eventText(topic, data) });
  }
}

/** Returns the lines of a server-sent event, without its id. */
export function eventText(type: string, data: object): Buffer {
  return Buffer.from(`event: ${type}\ndata: ${JSON.stringify(data)}\n\n`);
}
