import { Agent } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { type DualEraProcess, startDualEraProcess } from '../fixtures/dual-era-process.ts';
import { type Gateway, startGateway } from '../fixtures/gateway.ts';
import type { Manner } from './interview.ts';
import { type Holdings, PROBED, ProcessProbe } from './process-probe.ts';
import { SessionClient } from './session-client.ts';
import { Witness } from './witness.ts';

/** How long a soak goes on, and how hard. */
export interface SoakOptions {
  /** Sessions that are open at a time. */
  readonly sessions: number;
  /**
   * Milliseconds of load before what is held is taken down as the baseline, and after it. Without a warm-up the baseline
   * is what the gateway holds at its start.
   */
  readonly warmUpMs: number;
  readonly ms: number;
  /** Mean milliseconds that a session rests between bursts of calls. */
  readonly restMs: number;
  /** Milliseconds between the upstreams' forgetting of all sessions; one of the two at a time. */
  readonly forgetMs: number;
  /** Longest that the gateway may take to come back to the baseline, in milliseconds. */
  readonly settleMs: number;
  /** What is counted in the gateway; by default all that comes and goes. Each class takes a good part of a second. */
  readonly classes?: readonly string[];
}

/** What a soak has seen. */
export interface SoakResult {
  readonly witness: Witness;
  readonly before: Holdings;
  readonly after: Holdings;
  /** Bytes of main memory: the most that was seen under load. */
  readonly peakRss: number;
  /** Sessions that the upstreams hold when nobody has one any more, before and after. */
  readonly upstreamSessions: { readonly before: number; readonly after: number };
  /** How often upstreams were made to forget their sessions. */
  readonly forgotten: number;
  /** Milliseconds from the last DELETE until everything was back at the baseline. */
  readonly settledAfter: number;
  /** A line for everything that is not as it must be. */
  readonly wrong: readonly string[];
}

/** The tool at the first and at the second of the forwards, and what clients do while they call it. */
const TOOLS = ['interview', 'second-interview'];
const MANNERS: readonly (readonly [Manner, number])[] = [
  ['cutting', 0.12],
  ['cancelling', 0.1],
  ['slow', 0.05],
  ['leaving', 0.05],
];
/** Calls that a session has under way at a time. */
const BURST = 3;
/** Nobody can answer an upstream any more when the session has ended: so long, in milliseconds, may its calls take then. */
const OUTLIVE_MS = 10_000;
/** How long the upstreams may take to be known. */
const READY_MS = 90_000;
/** How long sessions live: milliseconds. */
const LIFE_MS = { least: 3_000, most: 30_000 };
/** What may be more than at the baseline: connections that are kept for the next request, and answers just written. */
const SLACK = { instances: 8, sockets: 8, heapBytes: 20 * 1024 * 1024, heapPart: 0.1 };

/** A gateway in front of two upstreams, each a process of its own, with clients that come and go. */
export class Soak {
  readonly gateway: Gateway;
  readonly probe: ProcessProbe;
  readonly #upstreams: readonly DualEraProcess[];
  readonly #agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY });
  #witness = new Witness();
  #stopped = true;
  #named = 0;
  /** Clients that went away without ending their session. */
  #vanished: SessionClient[] = [];

  private constructor(gateway: Gateway, probe: ProcessProbe, upstreams: readonly DualEraProcess[]) {
    this.gateway = gateway;
    this.probe = probe;
    this.#upstreams = upstreams;
  }

  static async start(): Promise<Soak> {
    const [gateway, ...upstreams] = await Promise.all([
      startGateway({ nodeArgs: PROBED }),
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
   * Waits until calls of legacy clients are relayed in their own era: an upstream that took its time when it was asked for
   * it, on a busy machine, is taken for one that knows the modern era alone until it is asked again.
   */
  async #ready(): Promise<void> {
    const over = performance.now() + READY_MS;
    for (;;) {
      const witness = new Witness();
      const client = this.client(witness);
      await client.open();
      await Promise.all(TOOLS.map((tool) => client.interview(tool, 'patient')));
      await client.end();
      if (witness.wrong.length === 0) return;
      if (performance.now() > over) throw new Error(`calls fail before the soak: ${witness.wrong[0]}`);
      await delay(500);
    }
  }

  /** A client of this gateway; it is to be opened, and ended. */
  client(witness: Witness): SessionClient {
    return new SessionClient(this.gateway.url(), this.#agent, `client ${++this.#named}`, witness);
  }

  /** Load as warm-up, the baseline, load, and a look at what is left. */
  async run(options: SoakOptions): Promise<SoakResult> {
    const { sessions, warmUpMs, ms, restMs, forgetMs, settleMs, classes } = options;
    if (warmUpMs > 0) await this.#load(sessions, warmUpMs, restMs);
    const before = warmUpMs > 0 ? await this.#baseline(classes) : await this.probe.holdings(classes);
    const sessionsBefore = await this.#upstreamSessions();

    const warmedUp = this.#witness;
    this.#witness = new Witness();
    let forgotten = 0;
    let peakRss = 0;
    const timers = [
      setInterval(() => void this.#upstreams[forgotten++ % 2]?.forgetSessions(), forgetMs),
      setInterval(async () => {
        peakRss = Math.max(peakRss, await this.probe.rss());
      }, 500),
    ];
    await this.#load(sessions, ms, restMs);
    for (const timer of timers) clearInterval(timer);

    const ended = performance.now();
    const over = ended + settleMs;
    const after = await this.probe.until((now) => grown(before, now).length === 0, settleMs, classes);
    let sessionsAfter = await this.#upstreamSessions();
    while (sessionsAfter > sessionsBefore && performance.now() < over) {
      await delay(500);
      sessionsAfter = await this.#upstreamSessions();
    }
    const wrong = [...warmedUp.wrong, ...this.#witness.wrong, ...grown(before, after), ...(await this.#complaints())];
    // Nothing forgets anything during the warm-up.
    if (warmedUp.lost > 0) wrong.push(`${warmedUp.lost} calls failed before an upstream forgot its sessions`);
    if (sessionsAfter > sessionsBefore)
      wrong.push(`upstreams hold ${sessionsAfter} sessions, before ${sessionsBefore}`);
    return {
      witness: this.#witness,
      before,
      after,
      peakRss,
      upstreamSessions: { before: sessionsBefore, after: sessionsAfter },
      forgotten,
      settledAfter: Math.round(performance.now() - ended),
      wrong,
    };
  }

  async close(): Promise<void> {
    this.#agent.destroy();
    this.probe.close();
    await this.gateway.close();
    await Promise.all(this.#upstreams.map((upstream) => upstream.close()));
  }

  /** So many clients at a time for so long; every session has been ended when it resolves. */
  async #load(sessions: number, ms: number, restMs: number): Promise<void> {
    this.#stopped = false;
    const over = setTimeout(() => {
      this.#stopped = true;
    }, ms);
    const witness = this.#witness;
    await Promise.all(
      Array.from({ length: sessions }, async () => {
        await delay(Math.random() * Math.min(restMs, ms / 4));
        while (!this.#stopped) {
          await this.#live(witness, restMs).catch((error: unknown) =>
            witness.reject(`a client failed: ${String(error)}`),
          );
        }
      }),
    );
    clearTimeout(over);
    await Promise.all(this.#vanished.map((client) => client.end()));
    this.#vanished = [];
    // Connections that clients keep are none of the gateway's doing.
    this.#agent.destroy();
  }

  /** The life of one client. */
  async #live(witness: Witness, restMs: number): Promise<void> {
    const client = this.client(witness);
    await client.open();
    const until = performance.now() + LIFE_MS.least + Math.random() * (LIFE_MS.most - LIFE_MS.least);
    while (!this.#stopped && performance.now() < until) {
      const calls = this.#burst(client, BURST);
      if (Math.random() < 0.1) await client.listenAgain();
      await calls;
      await delay(Math.random() * 2 * restMs);
    }
    const way = Math.random();
    if (way < 0.1) {
      client.vanish();
      this.#vanished.push(client);
    } else if (way < 0.4) {
      const calls = this.#burst(client, BURST);
      await delay(Math.random() * 300);
      await client.end();
      const ended = performance.now();
      await calls;
      const outlived = Math.round(performance.now() - ended);
      if (outlived > OUTLIVE_MS) witness.reject(`${client.name}: calls went on for ${outlived} ms after the session`);
    } else {
      await client.end();
    }
  }

  async #burst(client: SessionClient, calls: number): Promise<void> {
    await Promise.all(
      Array.from({ length: calls }, () => {
        const tool = TOOLS[Math.floor(Math.random() * TOOLS.length)] ?? '';
        return client.interview(tool, anyManner());
      }),
    );
  }

  /** What is held once nothing more goes away. */
  async #baseline(classes: readonly string[] | undefined): Promise<Holdings> {
    let last = await this.probe.holdings(classes);
    for (let round = 0; round < 30; round++) {
      await delay(1_000);
      const next = await this.probe.holdings(classes);
      if (fell(last, next) === 0) return next;
      last = next;
    }
    return last;
  }

  async #upstreamSessions(): Promise<number> {
    const stats = await Promise.all(this.#upstreams.map((upstream) => upstream.stats()));
    return stats.reduce((sum, { sessions }) => sum + sessions, 0);
  }

  /** What the gateway has logged that it must not, and answers that the upstreams got for another call. */
  async #complaints(): Promise<string[]> {
    const lines = this.gateway.logs
      .map((line) => JSON.stringify(line))
      .filter((line) => /MaxListeners|"level":"error"/i.test(line));
    const stats = await Promise.all(this.#upstreams.map((upstream) => upstream.stats()));
    const strayed = stats.reduce((sum, one) => sum + one.strayed, 0);
    if (strayed > 0) lines.push(`${strayed} answers reached another call`);
    return lines.slice(0, 20);
  }
}

/** A line for everything of which more is held than at the baseline. */
function grown(before: Holdings, after: Holdings): string[] {
  const lines: string[] = [];
  for (const [name, count] of Object.entries(after.instances)) {
    const allowed = (before.instances[name] ?? 0) + SLACK.instances;
    if (count > allowed)
      lines.push(`${count} instances of ${name} are left, before there were ${before.instances[name]}`);
  }
  if (after.sockets > before.sockets + SLACK.sockets) {
    lines.push(`${after.sockets} sockets are open, before there were ${before.sockets}`);
  }
  if (after.heap > before.heap * (1 + SLACK.heapPart) + SLACK.heapBytes) {
    lines.push(`the heap has ${after.heap} bytes, before it had ${before.heap}`);
  }
  return lines;
}

/** How much less is held in `next`. */
function fell(last: Holdings, next: Holdings): number {
  let sum = Math.max(0, last.sockets - next.sockets);
  for (const [name, count] of Object.entries(last.instances)) sum += Math.max(0, count - (next.instances[name] ?? 0));
  return sum;
}

function anyManner(): Manner {
  let choice = Math.random();
  for (const [manner, part] of MANNERS) {
    if (choice < part) return manner;
    choice -= part;
  }
  return 'patient';
}
