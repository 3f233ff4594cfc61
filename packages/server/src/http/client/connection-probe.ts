import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { isIP, type Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { serverOf } from './client.ts';
import { type EgressProxy, ProxyError } from './egress-proxies.ts';
import { connectionFailure, connectTimeout, displayAddress, proxyConnectionFailure, proxyFailure } from './errors.ts';
import { connectEvent, openSocket, openTlsInTunnel } from './socket.ts';
import { openTunnel } from './tunnel.ts';

/** Connects to an upstream step by step, as its transport does, with the same errors. */
export class ConnectionProbe {
  readonly #url: URL;
  readonly #address: string;
  readonly #proxy: EgressProxy | undefined;
  readonly #timeoutMs: number;

  /** `timeoutMs` is that of each step. */
  constructor(url: URL, proxy: EgressProxy | undefined, timeoutMs: number) {
    this.#url = url;
    this.#address = displayAddress(url);
    this.#proxy = proxy;
    this.#timeoutMs = timeoutMs;
  }

  /** Host whose name this machine resolves: that of the proxy, if there is one. */
  get host(): string {
    return (this.#proxy?.url ?? this.#url).hostname.replace(/^\[(.*)\]$/, '$1');
  }

  /** Returns the addresses of the host; undefined if it is an address itself. Rejects with `UpstreamError`. */
  async resolve(): Promise<string[] | undefined> {
    const { host } = this;
    if (isIP(host) !== 0) return undefined;
    const found = await this.#inTime(lookup(host, { all: true }), 'resolve its host name', this.#failure);
    return found.map(({ address }) => address);
  }

  /** Connects, through a tunnel if there is one. Rejects with `UpstreamError`. */
  async connect(): Promise<Socket> {
    const proxy = this.#proxy;
    const url = this.#url;
    if (proxy && url.protocol === 'https:') return this.#openTunnel(proxy);
    const target = proxy?.url ?? new URL(`http://${serverOf(url)}`);
    return this.#connected(openSocket({ url: target, tlsSession: undefined }), connectEvent(target), this.#failure);
  }

  /** Establishes TLS on a connection. Rejects with `UpstreamError`. */
  async startTls(connection: Socket): Promise<TLSSocket> {
    // The error of the socket is that of TLS in it.
    connection.on('error', () => undefined);
    const input = { buffer: Buffer.alloc(1_024), callback: () => false };
    const socket = openTlsInTunnel({ url: this.#url, tlsSession: undefined }, connection, input);
    const failure = (cause: Error) => connectionFailure(this.#address, cause, false);
    const secured = await this.#connected(socket, 'secureConnect', failure);
    if (!(secured instanceof TLSSocket)) throw new TypeError('not a TLS socket');
    return secured;
  }

  readonly #failure = (cause: Error): Error =>
    this.#proxy
      ? proxyConnectionFailure(this.#address, this.#proxy, cause)
      : connectionFailure(this.#address, cause, false);

  async #openTunnel(proxy: EgressProxy): Promise<Socket> {
    const opened = Promise.withResolvers<void>();
    const socket = openTunnel(this.#url, proxy, opened.resolve, (error) =>
      opened.reject(proxyFailure(this.#address, error)),
    );
    socket.on('error', (cause) => opened.reject(this.#failure(cause)));
    try {
      await this.#inTime(opened.promise, 'answer CONNECT', (error) => error);
      return socket;
    } catch (error) {
      socket.destroy();
      throw error;
    }
  }

  async #connected(socket: Socket, event: string, failure: (cause: Error) => Error): Promise<Socket> {
    try {
      await this.#inTime(once(socket, event), 'accept a connection', failure);
      socket.on('error', () => undefined);
      return socket;
    } catch (error) {
      socket.on('error', () => undefined).destroy();
      throw error;
    }
  }

  /** `what` is what the proxy did not do in time. */
  async #inTime<T>(work: Promise<T>, what: string, failure: (cause: Error) => Error): Promise<T> {
    const expired = Promise.withResolvers<never>();
    const timer = setTimeout(() => expired.reject(this.#timeout(what)), this.#timeoutMs);
    const failing = work.catch((error: unknown) => {
      throw error instanceof Error ? failure(error) : error;
    });
    try {
      return await Promise.race([failing, expired.promise]);
    } finally {
      clearTimeout(timer);
      failing.catch(() => undefined);
    }
  }

  #timeout(what: string): Error {
    const proxy = this.#proxy;
    if (!proxy) return connectTimeout(this.#address, this.#timeoutMs);
    return proxyFailure(this.#address, new ProxyError(proxy, `did not ${what} within ${this.#timeoutMs / 1000} s`));
  }
}
