import type { AnnouncedList } from '../forward-connection.ts';

/** Time after a read in which a notification is probably caused by it. */
const ECHO_MS = 200;

/**
 * What the notification of a changed list means for discovery:
 *
 * - `change`: the list has changed since it was read
 * - `echo`: it arrived while the list was read or just after. Some upstreams send it whenever they are asked for the list, but it
 *   may as well be a change that was not read
 * - `ahead`: the run in progress has yet to read the list
 */
export type ListNotice = 'change' | 'echo' | 'ahead';

interface ListRead {
  readers: number;
  /** Milliseconds of `performance.now()`. */
  endedAt: number;
  isAhead: boolean;
}

/** When the lists of one upstream are read, to recognize notifications that are caused by that. */
export class ListReads {
  readonly #reads: Readonly<Record<AnnouncedList, ListRead>> = {
    tools: unread(),
    resources: unread(),
    prompts: unread(),
  };

  /** Called before a run that reads all lists. */
  beginRun(): void {
    for (const read of Object.values(this.#reads)) read.isAhead = true;
  }

  /** Called after it, also if it has failed. */
  endRun(): void {
    for (const read of Object.values(this.#reads)) read.isAhead = false;
  }

  begin(list: AnnouncedList): void {
    const read = this.#reads[list];
    read.readers++;
    read.isAhead = false;
  }

  end(list: AnnouncedList): void {
    const read = this.#reads[list];
    read.readers--;
    read.endedAt = performance.now();
  }

  /** What a notification with this method means now; of any other method or none, that something may have changed. */
  noticeOf(method: unknown): ListNotice {
    const read = Object.entries(this.#reads).find(([list]) => method === `notifications/${list}/list_changed`)?.[1];
    if (!read) return 'change';
    if (read.isAhead) return 'ahead';
    return read.readers > 0 || performance.now() - read.endedAt <= ECHO_MS ? 'echo' : 'change';
  }
}

function unread(): ListRead {
  return { readers: 0, endedAt: Number.NEGATIVE_INFINITY, isAhead: false };
}
