import { z } from 'zod';
import { type Block, Blocks, blockedForward, isActive } from '../identity/blocks.ts';
import { OperationError } from '../registry/operation-error.ts';
import type { Registry } from '../registry/registry.ts';
import { Collection } from '../registry/store/collection.ts';
import type { RecordLog } from '../registry/store/record-log.ts';
import type { RecordedPut } from '../registry/store/store.ts';
import type { TargetLogger } from '../telemetry/log.ts';

const blockRecord = z.object({
  since: z.number(),
  until: z.number().optional(),
  reason: z.string().optional(),
  by: z.string().optional(),
});

/** A principal or forward that is blocked from now on. */
export interface Blocked {
  readonly id: string;
  /** Whether another replica has blocked it. */
  readonly isForeign: boolean;
}

/** Ends what a blocked principal or forward has open in this process. */
export type EndBlocked = (blocked: Blocked) => Promise<void>;

/** Blocks together with those that have ended. */
const MAX_BLOCKS = 10_000;
/** Longest time of a timer. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Options of {@link StoredBlocks}. */
export interface StoredBlocksOptions {
  /** Hides the blocked forwards; without it, the records are only read. */
  readonly registry?: Pick<Registry, 'hide'>;
  readonly log?: Pick<TargetLogger, 'info' | 'error'>;
  /** See {@link Blocks}. */
  readonly retainMs: number;
  /** Epoch milliseconds; defaults to the system clock. */
  readonly now?: () => number;
}

/**
 * The blocks of principals and forwards in the record log. A change is acknowledged once it is durable, and in effect in this process
 * and at all live replicas: what was open has ended.
 */
export class StoredBlocks {
  readonly blocks: Blocks;
  readonly #options: StoredBlocksOptions;
  readonly #now: () => number;
  readonly #records: Collection<Block>;
  readonly #ends: EndBlocked[] = [];
  #ending: Promise<unknown> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined = undefined;

  constructor(options: StoredBlocksOptions) {
    const { now = Date.now, retainMs } = options;
    const blocks = new Blocks(retainMs, now);
    this.#options = options;
    this.#now = now;
    this.blocks = blocks;
    this.#records = new Collection<Block>({
      name: 'blocks',
      schema: blockRecord,
      expires: (block) => blocks.expiryOf(block),
      table: blocks,
      settled: () => this.#ending,
      now,
    });
    this.#records.changed.subscribe(({ id, isForeign }) => this.#apply(id, isForeign));
  }

  /** Loads the records. Rejects with `StoreError`. */
  async open(log: RecordLog): Promise<void> {
    await this.#records.open(log);
  }

  /** Calls back for each block from now on. */
  onBlocked(end: EndBlocked): void {
    this.#ends.push(end);
  }

  /** Returns the blocks in force by id, sorted. */
  list(): [id: string, block: Block][] {
    const inForce = [...this.blocks.entries()].filter(([id]) => this.blocks.active(id));
    return inForce.sort(([a], [b]) => (a < b ? -1 : 1));
  }

  /**
   * Blocks a principal, key or forward, or changes how long it is blocked. Returns the ids of the replicas that may not have applied
   * it. OperationError UNPROCESSABLE if there are too many; rejects with `StoreError`.
   */
  async block(id: string, block: Omit<Block, 'since'>): Promise<readonly string[]> {
    await this.#records.update(id, (before) => {
      if (!before && this.blocks.size >= MAX_BLOCKS) {
        throw new OperationError('UNPROCESSABLE', `too many blocks: the limit is ${MAX_BLOCKS}, including ended ones`);
      }
      const now = this.#now();
      return { since: before && isActive(before, now) ? before.since : now, ...block };
    });
    // Without the reason: more people read the log.
    const { until, by } = block;
    this.#options.log?.info('blocked', { id, until: until && new Date(until).toISOString(), by });
    await this.#ending;
    return await this.#records.confirm();
  }

  /** Lifts a block. Returns as {@link block}; `wasBlocked` is false if there was none. Rejects with `StoreError`. */
  async unblock(id: string, by: string | undefined): Promise<{ wasBlocked: boolean; unconfirmed: readonly string[] }> {
    let wasBlocked = false;
    await this.#records.update(id, (before) => {
      const now = this.#now();
      wasBlocked = before !== undefined && isActive(before, now);
      if (!before || !wasBlocked) return undefined;
      return blockedForward(id) === undefined ? { ...before, until: now } : null;
    });
    if (wasBlocked) this.#options.log?.info('unblocked', { id, by });
    // Also if it is gone: whoever repeats the request may not have got the first response.
    return { wasBlocked, unconfirmed: await this.#records.confirm() };
  }

  /** What is stored, as of the call. */
  records(): Iterable<RecordedPut> {
    return this.#records.records();
  }

  /** Finishes pending changes. */
  async close(): Promise<void> {
    clearTimeout(this.#timer);
    await this.#records.close();
  }

  #apply(id: string, isForeign: boolean): void {
    if (blockedForward(id) !== undefined) this.#hideForwards();
    if (!this.blocks.active(id)) return;
    // What has failed once must not delay all later changes.
    const failed = (error: unknown) => this.#options.log?.error('what is blocked was not ended', { id, error });
    const ends = this.#ends.map((end) => end({ id, isForeign }).catch(failed));
    this.#ending = Promise.all([this.#ending, ...ends]);
  }

  /** Hides exactly the blocked forwards, now and whenever a block ends. */
  #hideForwards(): void {
    const { forwards } = this.blocks;
    const next = this.blocks.update();
    clearTimeout(this.#timer);
    if (next < Number.POSITIVE_INFINITY) {
      const ms = Math.min(next - this.#now(), MAX_TIMER_MS);
      this.#timer = setTimeout(() => this.#hideForwards(), ms).unref();
    }
    if (this.blocks.forwards !== forwards) this.#options.registry?.hide(this.blocks.forwards);
  }
}
