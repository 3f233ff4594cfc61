import { Agent } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from '../fixtures/free-port.ts';
import { type Gateway, startGateway } from '../fixtures/gateway.ts';
import {
  type QuestioningStats,
  type QuestioningUpstream,
  startQuestioningUpstream,
} from '../fixtures/questioning-upstream.ts';
import { ParkedClient, ParkedWitness, type Standing, type Treatment } from './parked-client.ts';

/** How a run is set up. */
export interface ParkedRunOptions {
  /** SERVICE_PARKED_CALL_TIMEOUT_MS. */
  readonly timeoutMs: number;
  /** Arguments of Node.js for the gateway. */
  readonly nodeArgs?: readonly string[];
}

/** A gateway that was ended while calls were parked. */
export interface EndedRound {
  readonly parked: number;
  /** Calls that the upstream was told to cancel. */
  readonly cancelled: number;
  /** Retries after the restart that were told that their call is not held. */
  readonly notHeld: number;
  /** Milliseconds until the process had ended, and the longest that such a retry took. */
  readonly endedAfter: number;
  readonly longest: number;
}

/** What becomes of twenty calls; the others' clients answer. */
const TREATMENTS: readonly Treatment[] = [
  ...Array<Treatment>(3).fill('late'),
  ...Array<Treatment>(2).fill('leaving'),
  ...Array<Treatment>(4).fill('robbed'),
  ...Array<Treatment>(2).fill('twice'),
  ...Array<Treatment>(3).fill('in pieces'),
];
const OF_TWENTY = 20;
const USERS = 8;
const NAMESPACES = ['default', 'second'] as const;
/** What an upstream may take to see what the gateway has done, and a process to end, in milliseconds. */
const SETTLE_MS = 10_000;
const END_MS = 10_000;

/** A gateway with a legacy upstream in two namespaces, and clients of several users whose calls are parked. */
export class ParkedRun {
  readonly gateway: Gateway;
  readonly upstream: QuestioningUpstream;
  readonly witness = new ParkedWitness();
  readonly #agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY });
  readonly #timeoutMs: number;

  private constructor(gateway: Gateway, upstream: QuestioningUpstream, timeoutMs: number) {
    this.gateway = gateway;
    this.upstream = upstream;
    this.#timeoutMs = timeoutMs;
  }

  static async start({ timeoutMs, nodeArgs = [] }: ParkedRunOptions): Promise<ParkedRun> {
    const env = { SERVICE_PARKED_CALL_TIMEOUT_MS: String(timeoutMs) };
    const [management, mcp] = await Promise.all([freePort(), freePort()]);
    const addresses = { management: `127.0.0.1:${management}`, mcp: `127.0.0.1:${mcp}` };
    const [gateway, upstream] = await Promise.all([
      startGateway({ ...addresses, env, nodeArgs }),
      startQuestioningUpstream(),
    ]);
    for (const namespace of NAMESPACES) await gateway.forward(`asking in ${namespace}`, upstream.url, namespace);
    return new ParkedRun(gateway, upstream, timeoutMs);
  }

  /** So many calls, all parked at once; then each is treated in some way, to its end. */
  async wave(count: number): Promise<void> {
    const { witness, upstream } = this;
    const before = await upstream.stats();
    const [expired, left, answered] = [witness.expired, witness.left, witness.answered];
    const first = Math.floor(Math.random() * OF_TWENTY);
    const clients = await this.#parked(count, (slot) => TREATMENTS[(first + slot) % OF_TWENTY] ?? 'answering');
    const { underWay } = await upstream.stats();
    if (underWay !== count) witness.reject(`${underWay} calls were under way when ${count} were parked`);
    const each = clients.map(({ client, others }) => client.finish(others, this.#timeoutMs));
    for (const outcome of await Promise.allSettled(each)) {
      if (outcome.status === 'rejected') witness.reject(`a client failed: ${String(outcome.reason)}`);
    }
    const after = await this.#settled((stats) => stats.underWay === 0);
    witness.cancelled += after.cancelled - before.cancelled;
    const given = witness.expired - expired + witness.left - left;
    this.#compare('calls that were given up and were cancelled upstream', given, after.cancelled - before.cancelled);
    const done = witness.answered - answered;
    this.#compare('calls answered, here and upstream', done, after.completed - before.completed);
    this.#compare('calls left upstream', 0, after.underWay);
    this.#complain(after);
  }

  /** Ends the gateway by SIGTERM while so many calls are parked, and starts it again. */
  async terminate(count: number): Promise<EndedRound> {
    const clients = await this.#parked(count, () => 'answering');
    const before = await this.upstream.stats();
    const began = performance.now();
    const code = await this.gateway.stop();
    const endedAfter = performance.now() - began;
    if (code !== 0) this.witness.reject(`the gateway ended with code ${code}`);
    if (endedAfter > END_MS) this.witness.reject(`the gateway ended after ${endedAfter} ms`);
    const { cancelled, ...after } = await this.#settled((stats) => stats.underWay === 0 && stats.sessions === 0);
    this.#compare('parked calls, and those that were cancelled upstream', count, cancelled - before.cancelled);
    this.#compare('calls left upstream', 0, after.underWay);
    this.#compare('sessions left upstream', 0, after.sessions);
    this.#compare('streams left upstream', 0, after.streams);
    this.#complain({ ...after, cancelled });
    const found = await this.#comeBack(clients);
    return { parked: count, cancelled: cancelled - before.cancelled, endedAfter, ...found };
  }

  /** Kills the gateway while so many calls are parked, and starts it again. */
  async kill(count: number): Promise<EndedRound> {
    const clients = await this.#parked(count, () => 'answering');
    const before = await this.upstream.stats();
    const began = performance.now();
    await this.gateway.kill();
    const endedAfter = performance.now() - began;
    const { cancelled } = await this.upstream.stats();
    await this.upstream.forget();
    const found = await this.#comeBack(clients);
    return { parked: count, cancelled: cancelled - before.cancelled, endedAfter, ...found };
  }

  /** Ends the gateway, which is to leave nothing upstream. */
  async end(): Promise<void> {
    const code = await this.gateway.stop();
    if (code !== 0) this.witness.reject(`the gateway ended with code ${code}`);
    const { sessions, streams, underWay } = await this.#settled((stats) => stats.sessions + stats.streams === 0);
    this.#compare('sessions left upstream', 0, sessions);
    this.#compare('streams left upstream', 0, streams);
    this.#compare('calls left upstream', 0, underWay);
  }

  /** Closes the clients' connections: what they keep is none of the gateway's doing. */
  disconnect(): void {
    this.#agent.destroy();
  }

  async close(): Promise<void> {
    this.disconnect();
    await this.gateway.close();
    await this.upstream.close();
  }

  /** Clients whose calls are parked, and for each those who have no right to its call. */
  async #parked(count: number, treatment: (slot: number) => Treatment) {
    const clients = Array.from({ length: count }, (_, slot) => {
      const standing = this.#standing(slot);
      const others = [
        { ...standing, user: this.#standing(slot + NAMESPACES.length).user },
        { ...standing, url: this.#standing(slot + 1).url },
      ];
      return { client: new ParkedClient(this.#agent, this.witness, standing, treatment(slot)), others };
    });
    const begun = await Promise.allSettled(clients.map(({ client }) => client.begin()));
    for (const outcome of begun) {
      if (outcome.status === 'rejected') this.witness.reject(`a call failed: ${String(outcome.reason)}`);
    }
    return clients;
  }

  /** The same for each slot of every wave, so that later waves find the sessions of earlier ones. */
  #standing(slot: number): Standing {
    const user = `user ${Math.floor(slot / NAMESPACES.length) % USERS}`;
    return { url: this.gateway.url(NAMESPACES[slot % NAMESPACES.length]), user };
  }

  /** Starts the gateway again and has all clients retry: each is to be told that its call is not held. */
  async #comeBack(clients: readonly { readonly client: ParkedClient }[]) {
    // The other side of the connections that were kept is gone.
    this.disconnect();
    const before = this.witness.notHeld;
    await this.gateway.restart();
    const found = await Promise.allSettled(clients.map(({ client }) => client.findNotHeld()));
    for (const outcome of found) {
      if (outcome.status === 'rejected') this.witness.reject(`a retry failed: ${String(outcome.reason)}`);
    }
    const times = found.map((outcome) => (outcome.status === 'fulfilled' ? outcome.value : 0));
    // And what is asked anew works.
    const [again] = await this.#parked(1, () => 'answering');
    await again?.client.finish([], this.#timeoutMs);
    return { notHeld: this.witness.notHeld - before, longest: Math.max(...times) };
  }

  /** What the upstream has seen, once the test is true of it or time is over. */
  async #settled(test: (stats: QuestioningStats) => boolean): Promise<QuestioningStats> {
    const over = performance.now() + SETTLE_MS;
    for (;;) {
      const stats = await this.upstream.stats();
      if (test(stats) || performance.now() > over) return stats;
      await delay(100);
    }
  }

  /** What must not have happened at the upstream, whatever was done. */
  #complain({ gone, endedBelow, strayed, refused }: QuestioningStats): void {
    this.#compare('calls cut off upstream without a word', 0, gone);
    this.#compare('sessions ended below a call', 0, endedBelow);
    this.#compare('answers for another call', 0, strayed);
    this.#compare('questions refused', 0, refused);
  }

  #compare(what: string, expected: number, found: number): void {
    if (found !== expected) this.witness.reject(`${what}: ${expected} and ${found}`);
  }
}
