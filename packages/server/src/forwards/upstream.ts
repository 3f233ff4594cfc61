import type { Era } from '../mcp/protocol.ts';
import { UpstreamLinks } from './links.ts';
import { createTransport, type UpstreamTransport } from './transport.ts';
import type { UpstreamError } from './upstream-error.ts';

/** Told of what calls find out about an upstream. */
export interface UpstreamObserver {
  /** A call failed; the upstream may be down. */
  failed(error: UpstreamError): void;
  /** A call succeeded although the upstream counted as down. */
  recovered(): void;
}

/** One upstream MCP server as calls see it: its connections, its sessions, the eras it speaks. */
export class Upstream {
  readonly transport: UpstreamTransport;
  readonly links: UpstreamLinks;
  /** The eras it is known to speak; undefined until something is known. */
  eras: ReadonlySet<Era> | undefined = undefined;
  /** Whether it counts as available; only then a success is no news. */
  available = false;
  /** When it was last asked for, in milliseconds of `performance.now()`; kept for those that no forward holds. */
  usedAt = 0;
  readonly #observer: UpstreamObserver;

  /** `address` is an http or https URL. Nothing is sent yet. */
  constructor(address: string, observer: UpstreamObserver) {
    this.transport = createTransport(address);
    this.links = new UpstreamLinks(this.transport);
    this.#observer = observer;
  }

  /** To be told by every call that got an answer. */
  succeeded(): void {
    if (!this.available) this.#observer.recovered();
  }

  /** To be told by every call that failed. */
  failed(error: UpstreamError): void {
    this.#observer.failed(error);
  }

  /** Sends a message that needs no answer, on the headers of a link; what becomes of it changes nothing. */
  post(headers: readonly string[], body: string): void {
    const ignore = { onHead() {}, onData: () => true, onEnd() {}, onError() {} };
    this.transport.dispatch({ method: 'POST', headers: [...headers], body }, ignore);
  }

  /** Ends the sessions upstream and lets calls under way finish. */
  async close(): Promise<void> {
    await this.links.closeAll();
    await this.transport.close();
  }

  /** Ends everything at once. */
  destroy(): Promise<void> {
    return this.transport.destroy();
  }
}
