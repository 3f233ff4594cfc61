import { isErrorOutcome, type ToolCallEvent } from '@sluice/contract';
import { isToolCallEvent, type ToolCallStream } from './tool-call-log.ts';

/** Who made a call: a user that the proxy has named, the console, or an agent without a login. */
export type Agent = { readonly user: string } | 'console' | 'anonymous' | 'others';

/** What executed a call. */
export interface Target {
  readonly kind: 'forward' | 'service';
  readonly name: string;
}

/** Numbers of calls that ended. */
export interface Counts {
  readonly calls: number;
  /** Those that failed, timed out, or whose tool reported an error. */
  readonly errors: number;
  /** Those that an evaluator blocked. */
  readonly blocked: number;
  /** Sum of their durations in milliseconds. */
  readonly ms: number;
}

export const NO_CALLS: Counts = { calls: 0, errors: 0, blocked: 0, ms: 0 };

/** The calls of an agent through a namespace to a target. */
export interface Flow extends Counts {
  readonly agent: Agent;
  readonly namespace: string;
  /** Undefined for calls that an evaluator rejected: they were not sent. */
  readonly target: Target | undefined;
}

/** The calls of the last minute; counts are per minute. */
export type Traffic = readonly Flow[];

type Ended = Exclude<ToolCallEvent, { eventType: 'STARTED' }>;

/** Time that is counted, in seconds. */
const WINDOW_S = 60;
const PUBLISH_MS = 1_000;
/** Flows that are counted apart; the agents of further ones are counted together. */
const MAX_FLOWS = 2_000;
/** Events that may arrive twice: from the stream and in the list of stored ones. */
const REMEMBERED = 2_000;

/** Counts of one flow by second. */
interface CountedFlow {
  readonly flow: Pick<Flow, 'agent' | 'namespace' | 'target'>;
  readonly seconds: Map<number, Record<keyof Counts, number>>;
}

/**
 * Counts the tool calls of the last minute by agent, namespace and target. What it stores does not depend on the number of
 * calls, and pages see new counts once a second.
 */
export class TrafficCounter {
  /** Changes with {@link subscribe}; never in place. */
  traffic: Traffic = [];
  readonly #flows = new Map<string, CountedFlow>();
  readonly #recent = new Set<string>();
  readonly #listeners = new Set<() => void>();
  /** Second from which on all calls are counted. */
  #begin = 0;

  /** Starts again with the stored events: all there were, unless as many are stored as possible. */
  load(stored: readonly ToolCallEvent[], isComplete: boolean, clockOffsetMs: number): void {
    this.#flows.clear();
    this.#recent.clear();
    const times = stored.map(({ timestamp }) => Date.parse(timestamp) + clockOffsetMs);
    this.#begin = isComplete ? 0 : Math.ceil(Math.min(...times) / 1000);
    for (const [index, event] of stored.entries()) this.#add(event, times[index] ?? 0);
    this.#publish();
  }

  /** Counts the calls of a stream until the returned function is called. */
  follow(events: ToolCallStream): () => void {
    const stop = events.listen('tool-calls', (event) => {
      if (isToolCallEvent(event)) this.#add(event, Date.now());
    });
    const timer = setInterval(() => this.#publish(), PUBLISH_MS);
    return () => {
      stop();
      clearInterval(timer);
    };
  }

  /** Calls the listener after each change until the returned function is called. */
  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  #add(event: ToolCallEvent, at: number): void {
    if (event.eventType === 'STARTED' || this.#recent.has(event.eventId)) return;
    this.#recent.add(event.eventId);
    if (this.#recent.size > REMEMBERED) for (const oldest of this.#recent.keys().take(1)) this.#recent.delete(oldest);
    const second = Math.floor(at / 1000);
    const { seconds } = this.#flowOf(event);
    const counts = seconds.get(second) ?? { ...NO_CALLS };
    seconds.set(second, counts);
    counts.calls++;
    counts.ms += event.duration;
    if (isErrorOutcome(event.outcome)) counts.errors++;
    if (event.outcome === 'blocked') counts.blocked++;
  }

  #flowOf(event: Ended): CountedFlow {
    const { namespace } = event;
    const target = targetOf(event);
    const agent = agentOf(event);
    const key = JSON.stringify([agent, namespace, target]);
    const known = this.#flows.get(key);
    if (known) return known;
    const isFull = this.#flows.size >= MAX_FLOWS;
    const shared = JSON.stringify(['others', namespace, target]);
    const found = isFull ? this.#flows.get(shared) : undefined;
    if (found) return found;
    const added = { flow: { agent: isFull ? 'others' : agent, namespace, target }, seconds: new Map() } as const;
    this.#flows.set(isFull ? shared : key, added);
    return added;
  }

  #publish(): void {
    const now = Math.floor(Date.now() / 1000);
    const first = Math.max(now - WINDOW_S, this.#begin);
    const perMinute = 60 / Math.max(1, now - first);
    const traffic: Flow[] = [];
    for (const [key, { flow, seconds }] of this.#flows) {
      const sum = { ...NO_CALLS };
      for (const [second, counts] of seconds) {
        if (second < now - WINDOW_S) seconds.delete(second);
        if (second < first) continue;
        sum.calls += counts.calls * perMinute;
        sum.errors += counts.errors * perMinute;
        sum.blocked += counts.blocked * perMinute;
        sum.ms += counts.ms * perMinute;
      }
      if (seconds.size === 0) this.#flows.delete(key);
      else traffic.push({ ...flow, ...sum });
    }
    if (traffic.length === 0 && this.traffic.length === 0) return;
    this.traffic = traffic;
    for (const listener of this.#listeners) listener();
  }
}

function targetOf(event: Ended): Target | undefined {
  const { forward, serviceId } = event;
  if (event.eventType === 'FAILED' && event.evaluator !== undefined) return undefined;
  if (forward !== undefined) return { kind: 'forward', name: forward };
  return serviceId === undefined ? undefined : { kind: 'service', name: serviceId };
}

function agentOf({ user, via }: Ended): Agent {
  if (user !== undefined) return { user };
  return via === undefined ? 'anonymous' : 'console';
}
