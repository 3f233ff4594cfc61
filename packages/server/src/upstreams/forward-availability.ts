import type { ForwardChange } from '@sluice/contract';
import { Emitter } from '@sluice/protocol/emitter';
import { counted, singleLine } from '@sluice/protocol/text';
import type { StoredDiscovery } from '../registry/catalogs.ts';
import { KINDS } from '../registry/entries.ts';
import type { Counts } from '../registry/snapshot.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import type { Discovery, ForwardConnection, ForwardHealth } from './forward-connection.ts';
import type { SharedDiscovery } from './shared-discovery.ts';

/** Options of {@link ForwardAvailability}. */
export interface ForwardAvailabilityOptions {
  readonly log: TargetLogger;
  /** Undefined for a single replica, which discovers all forwards. */
  readonly sharing?: SharedDiscovery | undefined;
}

/** A change before its time is set. */
type Unstamped<Change> = Change extends unknown ? Omit<Change, 'timestamp'> : never;

/** Longest text of a reported change, in characters: thousands of changes are stored. */
const MAX_TEXT = 500;

/** Availability of one forward. It is logged, reported to subscribers and shared with other replicas when it changes. */
export class ForwardAvailability {
  /** The availability has changed, or a discovery has ended. */
  readonly changed = new Emitter<ForwardChange>();
  /** Nothing is reported any more. Set by the controller. */
  isClosed = false;
  readonly #forward: string;
  readonly #connection: Pick<ForwardConnection, 'isAvailable'>;
  readonly #options: ForwardAvailabilityOptions;
  #health: ForwardHealth = { kind: 'pending' };
  /** What is wrong with the lists. */
  #notes: readonly string[] = [];
  /** Time between the reads of an upstream that announces changes whenever it is read; 0 for all others. */
  #distanceMs = 0;

  constructor(
    forward: string,
    connection: Pick<ForwardConnection, 'isAvailable'>,
    options: ForwardAvailabilityOptions,
  ) {
    this.#forward = forward;
    this.#connection = connection;
    this.#options = options;
  }

  get health(): ForwardHealth {
    return this.#health;
  }

  /** Takes over what another replica has found. */
  set health(health: ForwardHealth) {
    this.#health = health;
    this.#connection.isAvailable = health.kind === 'up';
  }

  /** Called for a discovery that has taken `duration` milliseconds; `counts`: the entries of the forward. */
  onDiscovered(duration: number, discovery: Discovery, stored: StoredDiscovery, counts: Counts): void {
    const { tool: tools, resource: resources, prompt: prompts } = counts;
    this.#notes = notesOf(discovery, stored);
    const eras = [...new Set(discovery.catalogs.map(({ era }) => era))];
    const notes = this.#notes.length > 0 && { notes: bounded(this.#notes.join('; ')) };
    this.#report({ kind: 'discovered', duration, eras, tools, resources, prompts, ...notes });
  }

  onDiscoveryFailed(duration: number, reason: string): void {
    this.#report({ kind: 'discovery_failed', duration, reason: bounded(reason) });
  }

  markUp(): void {
    if (this.#health.kind !== 'up') {
      this.#options.log.info('forward available', { forward: this.#forward });
      this.#report({ kind: 'available' });
    }
    this.#setUp();
  }

  /** `retryMs`: until the next attempt. */
  markDown(reason: string, retryMs: number): void {
    if (this.#health.kind !== 'down') {
      this.#options.log.warn('forward unavailable', { forward: this.#forward, reason });
      this.#report({ kind: 'unavailable', reason: bounded(reason) });
    }
    this.health = { kind: 'down', message: `${reason}; retrying in ${(retryMs / 1000).toFixed(1)} s` };
    this.#options.sharing?.states.publish(this.#forward, { kind: 'down', message: bounded(reason) });
  }

  /** Called when discoveries begin to be this far apart, and with 0 when they no longer are. */
  onPaced(distanceMs: number): void {
    this.#distanceMs = distanceMs;
    if (this.#health.kind === 'up') this.#setUp();
  }

  #setUp(): void {
    const notes = this.#distanceMs === 0 ? this.#notes : [...this.#notes, describeDistance(this.#distanceMs)];
    const health = { kind: 'up', message: notes.length > 0 ? notes.join('; ') : undefined } as const;
    this.health = health;
    this.#options.sharing?.states.publish(this.#forward, health);
  }

  #report(change: Unstamped<ForwardChange>): void {
    if (!this.isClosed) this.changed.emit({ ...change, timestamp: new Date().toISOString() });
  }
}

function bounded(text: string): string {
  return singleLine(text, MAX_TEXT - 1);
}

function describeDistance(distanceMs: number): string {
  const seconds = Math.round(distanceMs / 1000);
  return `announces changes of its lists whenever they are read, so they are read every ${seconds} s at most`;
}

function notesOf({ notes, undecided }: Discovery, { known, hidden }: StoredDiscovery): string[] {
  const unexposed = KINDS.flatMap((kind) => (hidden && hidden[kind] > 0 ? [counted(hidden[kind], kind)] : []));
  return [
    ...notes,
    ...(unexposed.length > 0 ? [`not exposed: ${unexposed.join(', ')}`] : []),
    ...undecided.filter(({ era }) => known.some((catalog) => catalog.era === era)).map(({ note }) => note),
  ];
}
