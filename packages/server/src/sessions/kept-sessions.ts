import type { Files } from '../registry/store/files.ts';
import type { StoreLog } from '../registry/store/store.ts';
import { FolderKeeper } from './kept/folder.ts';
import { type Kept, keptAfter } from './kept/kept.ts';
import { SessionTable } from './kept/table.ts';

/** What a client changed during its session (mcp 3). */
export interface SessionState {
  /** Least level of log messages, as the client set it; undefined: not set. */
  readonly logLevel?: string | undefined;
  /** Resources subscribed to, each uri once and in no particular order. */
  readonly subscriptions: readonly Subscription[];
}

/** A resource subscribed to, and the forward that it was subscribed at. */
export interface Subscription {
  readonly uri: string;
  readonly forward: string;
}

/**
 * What has to be known of sessions besides what their ids carry: which were ended, and what clients changed during the
 * others. All of it is kept until the session would have expired; `expires` is that time in epoch milliseconds, the same
 * in every call for one session.
 */
export interface KeptSessions {
  /** True when the session was ended for good. */
  ended(id: string): boolean;

  /**
   * Ends a session for good; resolves when no restart can bring it back, and drops its state. Rejects with `StoreError`
   * when that could not be kept: the session then goes on as it was.
   */
  end(id: string, expires: number): Promise<void>;

  /** What was changed; undefined when nothing was. */
  state(id: string): SessionState | undefined;

  /**
   * Replaces the state by what `change` makes of it; resolves when that is durable, and {@link KeptSessions.state} shows
   * it from then on. Changes of one session are applied in the order of the calls, each on what those before it left:
   * `change` is called once, but not at once.
   *
   * Rejects, with the state as it was before: with `SessionStateError` when the session was ended or the new state is
   * larger than a session's may be, with `StoreError` when it could not be kept, with whatever `change` throws.
   */
  change(id: string, expires: number, change: (before: SessionState) => SessionState): Promise<void>;

  /** Waits for what is under way and folds it into `sessions.json`. Later changes are refused. Throws `StoreError`. */
  close(): Promise<void>;
}

/** Sessions of a process that keeps nothing. */
export function keptInMemory(now: () => number = Date.now): KeptSessions {
  const table = new SessionTable();
  /** Writes until the next look: after so many, looking through all sessions costs no more than they did. */
  let untilLook = 0;
  const set = (id: string, kept: Kept | undefined): void => {
    table.set(id, kept);
    if (--untilLook > 0) return;
    table.forgetExpired(now());
    untilLook = table.size;
  };
  return {
    ended: (id) => table.ended(id),
    state: (id) => table.state(id),
    async end(id, expires) {
      set(id, keptAfter(table.get(id), expires, 'end'));
    },
    async change(id, expires, change) {
      const before = table.get(id);
      const after = keptAfter(before, expires, change);
      table.checkRoom(before, after);
      set(id, after);
    },
    async close() {},
  };
}

/**
 * Sessions kept in the folder, which has to exist and to be this process's alone: `sessions.json` and, beside it, a
 * journal of what changed since it was written (see {@link FolderKeeper}). Throws `StoreError` when a file there is
 * damaged or cannot be read.
 */
export function keptInFolder(
  folder: string,
  files: Files,
  log: StoreLog,
  now: () => number = Date.now,
): Promise<KeptSessions> {
  return FolderKeeper.open({ folder, files, log, now });
}
