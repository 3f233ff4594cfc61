import type { Era } from '@sluice/protocol/mcp/constants';
import { serverOf } from '../transport/server-of.ts';
import { createTransport, type UpstreamTransport } from '../transport/transport.ts';
import type { UpstreamError } from '../transport/upstream-error.ts';
import { UpstreamLinks } from './links.ts';

/** Told of what calls find out about an upstream. */
export interface UpstreamObserver {
  /** A call failed; the upstream may be down. */
  failed(error: UpstreamError): void;
  /** A call got an answer. Told of every one: must cost nothing. */
  succeeded(): void;
  /** It said that what it offers has changed. */
  changed(): void;
}

/** One upstream MCP server as calls see it: its connections, its sessions, the eras it speaks. */
export class Upstream {
  readonly transport: UpstreamTransport;
  /** Scheme, host and port of its address. */
  readonly origin: string;
  /** `host:port`. */
  readonly server: string;
  /** The forward that brought it; undefined for one that only hand-made tools name. */
  readonly forward: string | undefined;
  readonly links: UpstreamLinks;
  #eras: ReadonlySet<Era> | undefined = undefined;
  readonly #observer: UpstreamObserver;
  readonly #ended = new AbortController();

  /** `address` is an http or https URL. Nothing is sent yet. */
  constructor(address: string, observer: UpstreamObserver, forward?: string) {
    this.forward = forward;
    this.transport = createTransport(address);
    const url = new URL(address);
    this.origin = url.origin;
    this.server = serverOf(url);
    this.links = new UpstreamLinks(this.transport);
    this.#observer = observer;
  }

  /** Aborted when it is given up: calls under way may finish, what would never end by itself is to be ended. */
  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  /** The eras it is known to speak; undefined until something is known. */
  get eras(): ReadonlySet<Era> | undefined {
    return this.#eras;
  }

  /** To be told what it speaks. When it has left the legacy era, its sessions there are given up. */
  speaks(eras: ReadonlySet<Era>): void {
    this.#eras = eras;
    if (this.modernOnly) this.links.forgetAll();
  }

  /** True when it is known that a legacy client has nothing to speak with it in its own era. */
  get modernOnly(): boolean {
    return this.eras?.has('legacy') === false;
  }

  /** To be told by every call that got an answer. */
  succeeded(): void {
    this.#observer.succeeded();
  }

  /** To be told by every call that failed. */
  failed(error: UpstreamError): void {
    this.#observer.failed(error);
  }

  /** To be told when it says that what it offers has changed. */
  changed(): void {
    this.#observer.changed();
  }

  /** Ends the sessions upstream and lets calls under way finish. */
  async close(): Promise<void> {
    this.#ended.abort();
    await this.links.closeAll();
    await this.transport.close();
  }

  /** Ends everything at once. */
  destroy(): Promise<void> {
    return this.transport.destroy();
  }
}
