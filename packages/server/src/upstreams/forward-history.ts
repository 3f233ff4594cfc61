import { FORWARD_HISTORY_CAPACITY, type ForwardChange } from '@sluice/contract';
import { changedKeys } from '../registry/changes.ts';
import type { Registry } from '../registry/registry.ts';
import type { Forwards } from './forwards.ts';

/** Largest number of stored changes of all forwards: with their texts, 20 MiB in the worst case. */
const MAX_CHANGES = 20_000;
/** Changes that each of very many forwards keeps. */
const MIN_CHANGES = 10;

/**
 * Changes of availability and discoveries of each forward since the start of the process: the latest 200, fewer of more than 100
 * forwards.
 */
export class ForwardHistory {
  readonly #changes = new Map<string, ForwardChange[]>();

  constructor({ committed }: Pick<Registry, 'committed'>, { changed }: Pick<Forwards, 'changed'>) {
    changed.subscribe(({ forward, change }) => this.#record(forward, change));
    committed.subscribe(({ before, after }) => {
      for (const name of changedKeys(before.forwards, after.forwards)) {
        const isSame = before.forwards.get(name)?.registrationId === after.forwards.get(name)?.registrationId;
        if (!isSame) this.#changes.delete(name);
      }
    });
  }

  /** Changes of a forward, newest first. */
  of(forward: string): ForwardChange[] {
    return this.#changes.get(forward)?.toReversed() ?? [];
  }

  #record(forward: string, change: ForwardChange): void {
    const changes = this.#changes.getOrInsertComputed(forward, () => []);
    changes.push(change);
    const share = Math.floor(MAX_CHANGES / this.#changes.size);
    const capacity = Math.min(FORWARD_HISTORY_CAPACITY, Math.max(share, MIN_CHANGES));
    if (changes.length > capacity) changes.splice(0, changes.length - capacity);
  }
}
