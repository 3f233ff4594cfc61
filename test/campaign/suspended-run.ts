import { Agent } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from '../fixtures/free-port.ts';
import { type Gateway, startGateway } from '../fixtures/gateway.ts';
import {
  type RequestingStats,
  type RequestingUpstream,
  startRequestingUpstream,
} from '../fixtures/requesting-upstream.ts';
import { type Behavior, type Caller, SuspendedClient, SuspensionTally } from './suspended-client.ts';

/** Settings of a run. */
export interface SuspensionRunOptions {
  /** SERVICE_SUSPENDED_CALL_TIMEOUT_MS. */
  readonly timeoutMs: number;
  /** Node.js arguments for the gateway. */
  readonly nodeArgs?: readonly string[];
  /** Starts the gateway. */
  readonly start?: typeof startGateway;
}

/** Result of a restart of the gateway while calls were suspended. */
export interface RestartRound {
  readonly suspended: number;
  /** Calls that were canceled upstream. */
  readonly canceled: number;
  /** Retries after the restart with the error `not_held`. */
  readonly notHeld: number;
  /** Milliseconds until the process had exited, and the maximum latency of such a retry. */
  readonly exitedAfter: number;
  readonly maxRetry: number;
}

/** Behaviors of the clients of twenty calls; the other clients respond. */
const BEHAVIORS: readonly Behavior[] = [
  ...Array<Behavior>(3).fill('late'),
  ...Array<Behavior>(2).fill('disconnecting'),
  ...Array<Behavior>(4).fill('attacked'),
  ...Array<Behavior>(2).fill('duplicate'),
  ...Array<Behavior>(3).fill('partial'),
];
const BEHAVIOR_CYCLE = 20;
const USERS = 8;
const NAMESPACES = ['default', 'second'] as const;
/** Timeouts for the upstream to notice the gateway's actions, and for the gateway to exit, in milliseconds. */
const SETTLE_MS = 10_000;
const EXIT_MS = 10_000;

/** A gateway with a legacy upstream in two namespaces, and clients of several users whose calls are suspended. */
export class SuspensionRun {
  readonly gateway: Gateway;
  readonly upstream: RequestingUpstream;
  readonly tally = new SuspensionTally();
  readonly #agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY });
  readonly #timeoutMs: number;

  private constructor(gateway: Gateway, upstream: RequestingUpstream, timeoutMs: number) {
    this.gateway = gateway;
    this.upstream = upstream;
    this.#timeoutMs = timeoutMs;
  }

  static async start({ timeoutMs, nodeArgs = [], start = startGateway }: SuspensionRunOptions): Promise<SuspensionRun> {
    const env = { SERVICE_SUSPENDED_CALL_TIMEOUT_MS: String(timeoutMs) };
    const [management, mcp] = await Promise.all([freePort(), freePort()]);
    const addresses = { management: `127.0.0.1:${management}`, mcp: `127.0.0.1:${mcp}` };
    const [gateway, upstream] = await Promise.all([start({ ...addresses, env, nodeArgs }), startRequestingUpstream()]);
    for (const namespace of NAMESPACES) await gateway.forward(`upstream in ${namespace}`, upstream.url, namespace);
    return new SuspensionRun(gateway, upstream, timeoutMs);
  }

  /** Makes `count` concurrent calls; when all are suspended, applies a behavior to each, to its end. */
  async wave(count: number): Promise<void> {
    const { tally, upstream } = this;
    const before = await upstream.stats();
    const { expired, disconnected, completed } = tally;
    const first = Math.floor(Math.random() * BEHAVIOR_CYCLE);
    const clients = await this.#suspended(count, (slot) => BEHAVIORS[(first + slot) % BEHAVIOR_CYCLE] ?? 'responding');
    const { inFlight } = await upstream.stats();
    if (inFlight !== count) tally.fail(`${inFlight} calls in flight when ${count} were suspended`);
    const each = clients.map(({ client, otherClients }) => client.finish(otherClients, this.#timeoutMs));
    for (const outcome of await Promise.allSettled(each)) {
      if (outcome.status === 'rejected') tally.fail(`a client failed: ${String(outcome.reason)}`);
    }
    const after = await this.#waitForStats((stats) => stats.inFlight === 0);
    tally.canceled += after.canceled - before.canceled;
    const abandoned = tally.expired - expired + tally.disconnected - disconnected;
    this.#compare('abandoned calls, and calls canceled upstream', abandoned, after.canceled - before.canceled);
    const done = tally.completed - completed;
    this.#compare('calls completed here and upstream', done, after.completed - before.completed);
    this.#compare('calls remaining upstream', 0, after.inFlight);
    this.#checkUpstream(after);
  }

  /** Stops the gateway with SIGTERM while `count` calls are suspended, and restarts it. */
  async terminate(count: number): Promise<RestartRound> {
    const clients = await this.#suspended(count, () => 'responding');
    const before = await this.upstream.stats();
    const start = performance.now();
    const code = await this.gateway.stop();
    const exitedAfter = performance.now() - start;
    if (code !== 0) this.tally.fail(`the gateway exited with code ${code}`);
    if (exitedAfter > EXIT_MS) this.tally.fail(`the gateway exited after ${exitedAfter} ms`);
    const { canceled, ...after } = await this.#waitForStats((stats) => stats.inFlight === 0 && stats.sessions === 0);
    this.#compare('suspended calls, and calls canceled upstream', count, canceled - before.canceled);
    this.#compare('calls remaining upstream', 0, after.inFlight);
    this.#compare('sessions remaining upstream', 0, after.sessions);
    this.#compare('streams remaining upstream', 0, after.streams);
    this.#checkUpstream({ ...after, canceled });
    const retries = await this.#retryAll(clients);
    return { suspended: count, canceled: canceled - before.canceled, exitedAfter, ...retries };
  }

  /** Kills the gateway while `count` calls are suspended, and restarts it. */
  async kill(count: number): Promise<RestartRound> {
    const clients = await this.#suspended(count, () => 'responding');
    const before = await this.upstream.stats();
    const start = performance.now();
    await this.gateway.kill();
    const exitedAfter = performance.now() - start;
    const { canceled } = await this.upstream.stats();
    await this.upstream.forget();
    const retries = await this.#retryAll(clients);
    return { suspended: count, canceled: canceled - before.canceled, exitedAfter, ...retries };
  }

  /** Stops the gateway, and checks that nothing remains upstream. */
  async stop(): Promise<void> {
    const code = await this.gateway.stop();
    if (code !== 0) this.tally.fail(`the gateway exited with code ${code}`);
    const {
      sessions,
      streams,
      inFlight: underWay,
    } = await this.#waitForStats((stats) => stats.sessions + stats.streams === 0);
    this.#compare('sessions remaining upstream', 0, sessions);
    this.#compare('streams remaining upstream', 0, streams);
    this.#compare('calls remaining upstream', 0, underWay);
  }

  /** Closes the clients' pooled connections, which do not count as the gateway's. */
  disconnect(): void {
    this.#agent.destroy();
  }

  async close(): Promise<void> {
    this.disconnect();
    await this.gateway.close();
    await this.upstream.close();
  }

  /** Creates clients with suspended calls, and for each the callers that must not have access to its call. */
  async #suspended(count: number, behavior: (slot: number) => Behavior) {
    const clients = Array.from({ length: count }, (_, slot) => {
      const caller = this.#caller(slot);
      const otherClients = [
        { ...caller, user: this.#caller(slot + NAMESPACES.length).user },
        { ...caller, url: this.#caller(slot + 1).url },
      ];
      return { client: new SuspendedClient(this.#agent, this.tally, caller, behavior(slot)), otherClients };
    });
    const outcomes = await Promise.allSettled(clients.map(({ client }) => client.begin()));
    for (const outcome of outcomes) {
      if (outcome.status === 'rejected') this.tally.fail(`a call failed: ${String(outcome.reason)}`);
    }
    return clients;
  }

  /** The same for each slot of every wave, so that later waves reuse the sessions of earlier ones. */
  #caller(slot: number): Caller {
    const user = `user ${Math.floor(slot / NAMESPACES.length) % USERS}`;
    return { url: this.gateway.url(NAMESPACES[slot % NAMESPACES.length]), user };
  }

  /** Restarts the gateway and makes all clients retry: each expects the error `not_held`. */
  async #retryAll(clients: readonly { readonly client: SuspendedClient }[]) {
    // The gateway's end of the pooled connections is gone.
    this.disconnect();
    const before = this.tally.notHeld;
    await this.gateway.restart();
    const found = await Promise.allSettled(clients.map(({ client }) => client.findNotHeld()));
    for (const outcome of found) {
      if (outcome.status === 'rejected') this.tally.fail(`a retry failed: ${String(outcome.reason)}`);
    }
    const times = found.map((outcome) => (outcome.status === 'fulfilled' ? outcome.value : 0));
    // A new call succeeds.
    const [newCall] = await this.#suspended(1, () => 'responding');
    await newCall?.client.finish([], this.#timeoutMs);
    return { notHeld: this.tally.notHeld - before, maxRetry: Math.max(...times) };
  }

  /** Polls the statistics of the upstream until `test` is true or the timeout is over. */
  async #waitForStats(test: (stats: RequestingStats) => boolean): Promise<RequestingStats> {
    const deadline = performance.now() + SETTLE_MS;
    for (;;) {
      const stats = await this.upstream.stats();
      if (test(stats) || performance.now() > deadline) return stats;
      await delay(100);
    }
  }

  /** Checks the statistics that must be 0 whatever the clients did. */
  #checkUpstream({ unknownSessions, endedBelow, misrouted, refused }: RequestingStats): void {
    this.#compare('calls disconnected upstream without cancellation', 0, unknownSessions);
    this.#compare('sessions ended during a call', 0, endedBelow);
    this.#compare('responses for another call', 0, misrouted);
    this.#compare('server requests rejected', 0, refused);
  }

  #compare(label: string, expected: number, found: number): void {
    if (found !== expected) this.tally.fail(`${label}: expected ${expected}, found ${found}`);
  }
}
