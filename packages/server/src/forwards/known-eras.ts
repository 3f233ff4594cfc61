import type { Era } from '@sluice/protocol/mcp/constants';
import { type Probe, probeEras, type Undecided } from './era.ts';
import { openLegacy } from './legacy-client.ts';
import { openModern } from './modern-client.ts';
import type { ClientOptions } from './upstream-client.ts';

/** The verdict on an upstream's eras is tested again after this long (mcp 4). */
const VERDICT_MS = 60 * 60_000;
/** One that left an era undecided sooner: at first after this long, then after twice as long each time. */
const UNDECIDED_MS = 60_000;

/** What is known of the eras that one upstream speaks, and for how long. */
export class KnownEras {
  readonly #options: ClientOptions;
  readonly #legacyWanted: () => boolean;
  readonly #firstUndecidedMs: number;
  #verdict:
    | { readonly eras: readonly Era[]; readonly undecided: readonly Undecided[]; readonly askedLegacy: boolean }
    | undefined = undefined;
  /** When the eras are to be probed again, in milliseconds of `performance.now()`. */
  #probeAt = 0;
  #undecidedMs: number;

  /** `legacyWanted`: whether a modern upstream is to be asked for the legacy era too. `undecidedMs` is for tests. */
  constructor(options: ClientOptions, legacyWanted: () => boolean, undecidedMs: number = UNDECIDED_MS) {
    this.#options = options;
    this.#legacyWanted = legacyWanted;
    this.#firstUndecidedMs = undecidedMs;
    this.#undecidedMs = undecidedMs;
  }

  /** True once the upstream was asked for the legacy era. */
  get askedLegacy(): boolean {
    return this.#verdict?.askedLegacy ?? false;
  }

  /** Milliseconds until the eras are to be probed again; 0 when that is due. */
  get dueInMs(): number {
    return this.#verdict ? Math.max(this.#probeAt - performance.now(), 0) : 0;
  }

  /** Opens a client in each era that the upstream speaks, which is found out anew. Rejects like {@link probeEras}. */
  async probe(): Promise<Probe> {
    const probe = await probeEras(this.#options, this.#legacyWanted());
    const { legacy, modern, undecided, askedLegacy } = probe;
    const eras: Era[] = [];
    if (legacy) eras.push('legacy');
    if (modern) eras.push('modern');
    this.#verdict = { eras, undecided, askedLegacy };
    this.#probeNext(undecided.length === 0);
    return probe;
  }

  /**
   * The same without asking for what was ruled out, which some upstreams answer with silence; unless a known era is
   * spoken no longer, or not now.
   */
  async open(): Promise<Probe> {
    if (!this.#verdict || (!this.#verdict.askedLegacy && this.#legacyWanted())) return this.probe();
    const { eras, undecided, askedLegacy } = this.#verdict;
    const opening = [
      eras.includes('legacy') ? openLegacy(this.#options) : undefined,
      eras.includes('modern') ? openModern(this.#options) : undefined,
    ] as const;
    try {
      const [legacy, modern] = await Promise.all(opening);
      return { legacy, modern, undecided, askedLegacy };
    } catch {
      for (const client of opening) client?.then((opened) => opened.close()).catch(() => undefined);
      return this.probe();
    }
  }

  #probeNext(decided: boolean): void {
    const now = performance.now();
    if (decided) {
      this.#undecidedMs = this.#firstUndecidedMs;
      this.#probeAt = now + VERDICT_MS;
    } else {
      this.#probeAt = now + this.#undecidedMs;
      this.#undecidedMs = Math.min(this.#undecidedMs * 2, VERDICT_MS);
    }
  }
}
