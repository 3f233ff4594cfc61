import type { ForwardChange } from '@sluice/contract';
import { Emitter } from '@sluice/protocol/emitter';
import { singleLine } from '@sluice/protocol/text';
import type { TargetLogger } from '../telemetry/log.ts';
import type { ForwardConnection, ForwardHealth } from './forward-connection.ts';
import type { SharedDiscovery } from './shared-discovery.ts';

interface ForwardAvailabilityOptions {
  readonly log: TargetLogger;
  /** Undefined for a single replica. */
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
  readonly #forward: string;
  readonly #connection: Pick<ForwardConnection, 'isAvailable'>;
  readonly #options: ForwardAvailabilityOptions;
  #health: ForwardHealth = { kind: 'pending' };
  #notes: readonly string[] = [];
  /** Time between the reads of an upstream that announces changes whenever it is read; 0 for all others. */
  #distanceMs = 0;
  #isClosed = false;

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

  /** Called for a discovery that has succeeded; `notes`: what is wrong with the lists. */
  onDiscovered(
    found: Omit<Extract<ForwardChange, { kind: 'discovered' }>, 'timestamp' | 'notes'>,
    notes: string[],
  ): void {
    this.#notes = notes;
    this.#report({ ...found, ...(notes.length > 0 && { notes: bounded(notes.join('; ')) }) });
  }

  /** Called for a discovery that has failed. */
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
    this.#options.sharing?.publish(this.#forward, { kind: 'down', message: bounded(reason) });
  }

  /** Called when discoveries begin to be this far apart, and with 0 when they no longer are. */
  onPaced(distanceMs: number): void {
    this.#distanceMs = distanceMs;
    if (this.#health.kind === 'up') this.#setUp();
  }

  /** Whether nothing is reported any more. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  close(): void {
    this.#isClosed = true;
  }

  #setUp(): void {
    const notes = this.#distanceMs === 0 ? this.#notes : [...this.#notes, describeDistance(this.#distanceMs)];
    const health = { kind: 'up', message: notes.length > 0 ? notes.join('; ') : undefined } as const;
    this.health = health;
    this.#options.sharing?.publish(this.#forward, health);
  }

  #report(change: Unstamped<ForwardChange>): void {
    if (!this.#isClosed) this.changed.emit({ ...change, timestamp: new Date().toISOString() });
  }
}

function bounded(text: string): string {
  return singleLine(text, MAX_TEXT - 1);
}

function describeDistance(distanceMs: number): string {
  const seconds = Math.round(distanceMs / 1000);
  return `announces changes of its lists whenever they are read, so they are read every ${seconds} s at most`;
}
