import { Agent } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { type DualEraProcess, startDualEraProcess } from '../fixtures/dual-era-process.ts';
import { type Gateway, startGateway } from '../fixtures/gateway.ts';
import type { Behavior } from './interview.ts';
import { INSPECTOR_ARGS, ProcessProbe, type ResourceUsage } from './process-probe.ts';
import { SessionClient } from './session-client.ts';
import { SessionTally } from './tally.ts';

/** Longest extension of the load for rare events. */
const MAX_EXTENSION_MS = 60_000;

/** Duration and load of a soak test. */
export interface SoakOptions {
  /** Concurrent sessions. */
  readonly sessions: number;
  /**
   * Milliseconds of load before and after the measurement of the baseline. Without a warm-up, the baseline is measured at
   * the start of the gateway.
   */
  readonly warmUpMs: number;
  readonly ms: number;
  /** The load continues, for at most a minute longer, until this returns true: on a slow machine rare events take time. */
  readonly isEnough?: (tally: SessionTally, sessionResets: number) => boolean;
  /** Mean pause of a session between bursts of calls, in milliseconds. */
  readonly pauseMs: number;
  /** Milliseconds between two session resets, where one of the two upstreams loses all sessions. */
  readonly resetMs: number;
  /** Time limit for the gateway's return to the baseline, in milliseconds. */
  readonly settleMs: number;
  /** Classes to count in the gateway; by default all known ones. */
  readonly classes?: readonly string[];
}

/** Result of a soak test. */
export interface SoakResult {
  readonly tally: SessionTally;
  readonly before: ResourceUsage;
  readonly after: ResourceUsage;
  /** Maximum RSS under load, in bytes. */
  readonly peakRss: number;
  /** Open sessions of the upstreams without clients, before and after. */
  readonly upstreamSessions: { readonly before: number; readonly after: number };
  /** Session resets of upstreams. */
  readonly sessionResets: number;
  /** Milliseconds from the last DELETE until the return to the baseline. */
  readonly settleTimeMs: number;
  /** One line per violation. */
  readonly failures: readonly string[];
}

/** The tool of the first and of the second forward, and the behaviors of clients with their probability. */
const TOOLS = ['interview', 'second-interview'];
const BEHAVIORS: readonly (readonly [Behavior, number])[] = [
  ['resuming', 0.12],
  ['canceling', 0.1],
  ['slow', 0.05],
  ['disconnecting', 0.05],
];
/** Concurrent calls of a session. */
const BURST = 3;
/** Time limit for calls whose session has ended, in milliseconds: server requests get no more responses. */
const SESSION_END_TIMEOUT_MS = 10_000;
/** Time limit until both upstreams are ready, in milliseconds. */
const READY_MS = 90_000;
/** Lifetime of a session in milliseconds. */
const LIFETIME_MS = { min: 3_000, max: 30_000 };
/** Tolerance above the baseline: pooled connections, and responses just written. */
const TOLERANCE = { instances: 8, sockets: 8, heapBytes: 20 * 1024 * 1024, heapPart: 0.1 };

/** A gateway with two upstreams, each in its own process, and clients that connect and disconnect. */
export class Soak {
  readonly gateway: Gateway;
  readonly probe: ProcessProbe;
  readonly #upstreams: readonly DualEraProcess[];
  readonly #agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY });
  #tally = new SessionTally();
  #stopped = true;
  #clientCount = 0;
  /** Clients that disconnected without ending their session. */
  #vanished: SessionClient[] = [];

  private constructor(gateway: Gateway, probe: ProcessProbe, upstreams: readonly DualEraProcess[]) {
    this.gateway = gateway;
    this.probe = probe;
    this.#upstreams = upstreams;
  }

  /** `start` starts the gateway. */
  static async start(start: typeof startGateway = startGateway): Promise<Soak> {
    const [gateway, ...upstreams] = await Promise.all([
      start({ nodeArgs: INSPECTOR_ARGS }),
      startDualEraProcess(),
      startDualEraProcess(),
    ]);
    const [first, second] = upstreams;
    await gateway.forward('first', first.url);
    const registered = await gateway.api('POST', '/api/v1/forwards', {
      name: 'second',
      address: second.url,
      prefix: 'second-',
    });
    if (registered.status !== 201) throw new Error(JSON.stringify(registered.body));
    const soak = new Soak(gateway, await ProcessProbe.connect(gateway), upstreams);
    await soak.#ready();
    return soak;
  }

  /**
   * Waits until calls of legacy clients are relayed in their own era. On a busy machine, the probe for the legacy era may
   * time out; the upstream then counts as modern only, until the next probe.
   */
  async #ready(): Promise<void> {
    const deadline = performance.now() + READY_MS;
    for (;;) {
      const tally = new SessionTally();
      const client = this.client(tally);
      await client.open();
      await Promise.all(TOOLS.map((tool) => client.interview(tool, 'patient')));
      await client.end();
      if (tally.failures.length === 0) return;
      if (performance.now() > deadline) throw new Error(`calls fail before the soak: ${tally.failures[0]}`);
      await delay(500);
    }
  }

  /** Creates a client of this gateway; the caller opens and ends it. */
  client(tally: SessionTally): SessionClient {
    return new SessionClient(this.gateway.url(), this.#agent, `client ${++this.#clientCount}`, tally);
  }

  /** Warms up, measures the baseline, applies the load, and compares the remaining resources with the baseline. */
  async run(options: SoakOptions): Promise<SoakResult> {
    const { sessions, warmUpMs, ms, pauseMs, resetMs, settleMs, classes, isEnough = () => true } = options;
    if (warmUpMs > 0) await this.#load(sessions, warmUpMs, pauseMs);
    const before = warmUpMs > 0 ? await this.#baseline(classes) : await this.probe.usage(classes);
    const sessionsBefore = await this.#upstreamSessions();

    const warmUp = this.#tally;
    this.#tally = new SessionTally();
    let sessionResets = 0;
    let peakRss = 0;
    const timers = [
      setInterval(() => void this.#upstreams[sessionResets++ % 2]?.forgetSessions(), resetMs),
      setInterval(async () => {
        peakRss = Math.max(peakRss, await this.probe.rss());
      }, 500),
    ];
    await this.#load(sessions, ms, pauseMs, () => isEnough(this.#tally, sessionResets));
    for (const timer of timers) clearInterval(timer);

    const ended = performance.now();
    const deadline = ended + settleMs;
    // Their sessions end last; a measurement of the gateway takes seconds.
    let sessionsAfter = await this.#upstreamSessions();
    while (sessionsAfter > sessionsBefore && performance.now() < deadline) {
      await delay(500);
      sessionsAfter = await this.#upstreamSessions();
    }
    const after = await this.probe.until(
      (now) => growth(before, now).length === 0,
      // Of its own: connections to upstreams are closed some seconds after the last session.
      settleMs,
      classes,
    );
    const failures = [...warmUp.failures, ...this.#tally.failures, ...growth(before, after), ...(await this.#errors())];
    // There are no session resets during the warm-up.
    if (warmUp.sessionLosses > 0) failures.push(`${warmUp.sessionLosses} calls failed before the first session reset`);
    if (sessionsAfter > sessionsBefore)
      failures.push(`upstreams have ${sessionsAfter} sessions, ${sessionsBefore} before`);
    return {
      tally: this.#tally,
      before,
      after,
      peakRss,
      upstreamSessions: { before: sessionsBefore, after: sessionsAfter },
      sessionResets,
      settleTimeMs: Math.round(performance.now() - ended),
      failures,
    };
  }

  async close(): Promise<void> {
    this.#agent.destroy();
    this.probe.close();
    await this.gateway.close();
    await Promise.all(this.#upstreams.map((upstream) => upstream.close()));
  }

  /** Runs `sessions` concurrent clients for `ms` and until `isEnough`; resolves when every session has ended. */
  async #load(sessions: number, ms: number, pauseMs: number, isEnough = () => true): Promise<void> {
    this.#stopped = false;
    const startedAt = performance.now();
    const timer = setInterval(() => {
      const elapsed = performance.now() - startedAt;
      this.#stopped = elapsed >= ms + MAX_EXTENSION_MS || (elapsed >= ms && isEnough());
    }, 100);
    const tally = this.#tally;
    await Promise.all(
      Array.from({ length: sessions }, async () => {
        await delay(Math.random() * Math.min(pauseMs, ms / 4));
        while (!this.#stopped) {
          await this.#runClient(tally, pauseMs).catch((error: unknown) =>
            tally.fail(`a client failed: ${String(error)}`),
          );
        }
      }),
    );
    clearInterval(timer);
    await Promise.all(this.#vanished.map((client) => client.end()));
    this.#vanished = [];
    // Connections in the clients' pool do not count.
    this.#agent.destroy();
  }

  /** Runs one client from its first to its last request. */
  async #runClient(tally: SessionTally, pauseMs: number): Promise<void> {
    const client = this.client(tally);
    await client.open();
    const endsAt = performance.now() + LIFETIME_MS.min + Math.random() * (LIFETIME_MS.max - LIFETIME_MS.min);
    while (!this.#stopped && performance.now() < endsAt) {
      const calls = this.#burst(client, BURST);
      if (Math.random() < 0.1) await client.reconnectStream();
      await calls;
      await delay(Math.random() * 2 * pauseMs);
    }
    const ending = Math.random();
    if (ending < 0.1) {
      client.disconnect();
      this.#vanished.push(client);
    } else if (ending < 0.4) {
      const calls = this.#burst(client, BURST);
      await delay(Math.random() * 300);
      await client.end();
      const ended = performance.now();
      await calls;
      const remaining = Math.round(performance.now() - ended);
      if (remaining > SESSION_END_TIMEOUT_MS)
        tally.fail(`${client.name}: calls continued for ${remaining} ms after the session`);
    } else {
      await client.end();
    }
  }

  async #burst(client: SessionClient, calls: number): Promise<void> {
    await Promise.all(
      Array.from({ length: calls }, () => {
        const tool = TOOLS[Math.floor(Math.random() * TOOLS.length)] ?? '';
        return client.interview(tool, randomBehavior());
      }),
    );
  }

  /** Measures until no more objects are released. */
  async #baseline(classes: readonly string[] | undefined): Promise<ResourceUsage> {
    let last = await this.probe.usage(classes);
    for (let round = 0; round < 30; round++) {
      await delay(1_000);
      const next = await this.probe.usage(classes);
      if (countReleased(last, next) === 0) return next;
      last = next;
    }
    return last;
  }

  async #upstreamSessions(): Promise<number> {
    const stats = await Promise.all(this.#upstreams.map((upstream) => upstream.stats()));
    return stats.reduce((sum, { sessions }) => sum + sessions, 0);
  }

  /** Error lines of the gateway's log, and responses that the upstreams received for another call. */
  async #errors(): Promise<string[]> {
    const lines = this.gateway.logs
      .map((line) => JSON.stringify(line))
      .filter((line) => /MaxListeners|"level":"error"/i.test(line));
    const stats = await Promise.all(this.#upstreams.map((upstream) => upstream.stats()));
    const strayed = stats.reduce((sum, one) => sum + one.strayed, 0);
    if (strayed > 0) lines.push(`${strayed} responses reached another call`);
    return lines.slice(0, 20);
  }
}

/** One line per resource above the baseline. */
function growth(before: ResourceUsage, after: ResourceUsage): string[] {
  const lines: string[] = [];
  for (const [name, count] of Object.entries(after.instances)) {
    const allowed = (before.instances[name] ?? 0) + TOLERANCE.instances;
    if (count > allowed) lines.push(`${count} instances of ${name}, ${before.instances[name]}`);
  }
  if (after.sockets > before.sockets + TOLERANCE.sockets) {
    lines.push(`${after.sockets} open sockets, ${before.sockets} before`);
  }
  if (after.heap > before.heap * (1 + TOLERANCE.heapPart) + TOLERANCE.heapBytes) {
    lines.push(`heap: ${after.heap} bytes, ${before.heap} before`);
  }
  return lines;
}

/** Number of instances and sockets that were released between two measurements. */
function countReleased(last: ResourceUsage, next: ResourceUsage): number {
  let sum = Math.max(0, last.sockets - next.sockets);
  for (const [name, count] of Object.entries(last.instances)) sum += Math.max(0, count - (next.instances[name] ?? 0));
  return sum;
}

function randomBehavior(): Behavior {
  let choice = Math.random();
  for (const [behavior, part] of BEHAVIORS) {
    if (choice < part) return behavior;
    choice -= part;
  }
  return 'patient';
}
