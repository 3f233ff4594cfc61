import type { LlmConnection } from '../../config/llm-connections.ts';
import { createTransport, type UpstreamTransport } from '../../transport/transport.ts';
import { CompletionCall } from './completion-call.ts';
import { LlmFailure, unusable } from './llm-failure.ts';

/** A message that an LLM is asked with. */
export interface LlmMessage {
  readonly role: 'system' | 'user';
  readonly content: string;
}

/** Bounds of one call; those of the product by default. */
export interface LlmLimits {
  /** Milliseconds for the whole of it, connecting included (default 10 s, decisions 8). */
  readonly timeoutMs?: number;
  /** Bytes of an answer's body (default 1 MiB). */
  readonly maxBytes?: number;
}

const TIMEOUT_MS = 10_000;
const MAX_BYTES = 1024 * 1024;

/** Asks LLMs, on connections that are kept open between calls. */
export class LlmClient {
  readonly #timeoutMs: number;
  readonly #maxBytes: number;
  /** By the address of the chat-completions endpoint. */
  readonly #transports = new Map<string, UpstreamTransport>();
  #closed = false;

  constructor({ timeoutMs = TIMEOUT_MS, maxBytes = MAX_BYTES }: LlmLimits = {}) {
    this.#timeoutMs = timeoutMs;
    this.#maxBytes = maxBytes;
  }

  /**
   * The content of the only choice, which may be empty (decisions 4.9, "LLM call"). Throws `LlmFailure`. Nothing is sent
   * twice; after `close`, nothing at all.
   */
  async ask(connection: LlmConnection, messages: readonly LlmMessage[], signal?: AbortSignal): Promise<string> {
    const { model, url, apiKey } = connection;
    if (this.#closed) throw new LlmFailure('aborted', connection.name, 'is no longer in use: the service stops');
    const headers = ['content-type', 'application/json', 'accept', 'application/json', 'accept-encoding', 'identity'];
    if (apiKey) headers.push('authorization', `Bearer ${apiKey}`);
    const transport = this.#transportTo(`${url.replace(/\/+$/, '')}/chat/completions`);
    if (transport === undefined) throw unusable(connection.name);
    const body = JSON.stringify({ model, messages, temperature: 0 });
    const settings = { connection: connection.name, timeoutMs: this.#timeoutMs, maxBytes: this.#maxBytes, signal };
    return new CompletionCall(settings).send(transport, { method: 'POST', headers, body });
  }

  /** Ends connections, and calls under way as `aborted`. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#transports.values()].map((transport) => transport.destroy()));
  }

  /** Undefined when the address is none. */
  #transportTo(address: string): UpstreamTransport | undefined {
    let transport = this.#transports.get(address);
    if (transport === undefined) {
      try {
        transport = createTransport(address, { connectTimeoutMs: this.#timeoutMs, redirects: 'pass' });
      } catch {
        return undefined;
      }
      this.#transports.set(address, transport);
    }
    return transport;
  }
}
