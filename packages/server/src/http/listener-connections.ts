import type { Server, Socket } from 'node:net';
import type { SocketLimits } from './open-files.ts';

/** Connections of one listener beyond its limit that receive a response; further ones are closed at once. */
const MAX_REJECTED = 100;
/** Time in which a client on a connection beyond the limit must have sent its request and read the response. */
const REJECTION_MS = 5_000;

/**
 * Connections of the listeners of one process, so that clients cannot use up the files that it may open. `onFull` is called when
 * a connection is one too many.
 */
export class ListenerConnections {
  readonly #limit: number;
  readonly #maxRejected: number;
  readonly #onFull: (limit: number) => void;
  #open = 0;
  #rejected = 0;

  /** Without limits by default. */
  constructor({ listeners, rejected }: Partial<SocketLimits> = {}, onFull: (limit: number) => void = () => {}) {
    this.#limit = listeners ?? Number.POSITIVE_INFINITY;
    this.#maxRejected = rejected ?? Number.POSITIVE_INFINITY;
    this.#onFull = onFull;
  }

  /**
   * Counts the connections of a server from now on. Returns the set of those that are one too many: they are open in order to
   * reject their requests. `maxConnections` is the server's own limit, which replaces the shared one.
   */
  watch(server: Server, secure: boolean, maxConnections?: number): ReadonlySet<Socket> {
    const excess = new Set<Socket>();
    let own = 0;
    const accept = (socket: Socket, isFull: boolean): unknown => {
      if (!isFull) {
        own++;
        return socket.once('close', () => own--);
      }
      if (excess.size >= MAX_REJECTED || this.#rejected >= this.#maxRejected) return socket.destroy();
      this.#rejected++;
      excess.add(socket);
      const timer = setTimeout(() => socket.destroy(), REJECTION_MS).unref();
      return socket.once('close', () => {
        clearTimeout(timer);
        this.#rejected--;
        excess.delete(socket);
      });
    };
    const isFull = () => maxConnections !== undefined && own >= maxConnections;
    server.on('connection', (socket: Socket) => {
      const isBeyondShare = maxConnections === undefined && this.#open >= this.#limit;
      if (isBeyondShare) this.#onFull(this.#limit);
      // A response would need the handshake first.
      if (isBeyondShare && secure) return void socket.destroy();
      if (!isBeyondShare) {
        this.#open++;
        socket.once('close', () => this.#open--);
      }
      if (!secure) accept(socket, isBeyondShare || isFull());
    });
    if (secure) server.on('secureConnection', (socket: Socket) => accept(socket, isFull()));
    return excess;
  }
}
