/** Milliseconds between two looks while a host works. */
const WORKING_MS = 10;
/** While all idle: what a run made hot is compiled once more after it, which may take a process gigabytes. */
const IDLE_MS = 50;
/** When they have done so for a minute. */
const QUIET_MS = 1_000;
const QUIET_AFTER_MS = 60_000;

/** What host processes are doing together. */
export type HostsState = 'none' | 'idle' | 'working';

/** Has the memory of host processes looked at for as long as there are some; it does not keep the process. */
export class MemoryWatch {
  readonly #state: () => HostsState;
  readonly #look: () => void;
  #timer: NodeJS.Timeout | undefined;
  #everyMs: number | undefined;
  /** When one of them was last seen working. */
  #workedAt = 0;

  constructor(state: () => HostsState, look: () => void) {
    this.#state = state;
    this.#look = look;
  }

  /** To be called when one begins to work; by itself it notices when that is over. */
  update(): void {
    const everyMs = this.#every();
    if (this.#everyMs === everyMs) return;
    this.stop();
    if (everyMs === undefined) return;
    this.#everyMs = everyMs;
    this.#timer = setInterval(() => {
      this.#look();
      this.update();
    }, everyMs).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#everyMs = undefined;
  }

  #every(): number | undefined {
    const state = this.#state();
    if (state === 'none') return undefined;
    const now = performance.now();
    if (state === 'working') {
      this.#workedAt = now;
      return WORKING_MS;
    }
    return now - this.#workedAt < QUIET_AFTER_MS ? IDLE_MS : QUIET_MS;
  }
}
