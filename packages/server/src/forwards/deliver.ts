import type { UpstreamTransport } from '../transport/transport.ts';
import { UpstreamError } from '../transport/upstream-error.ts';
import { exchange } from './exchange.ts';

/** An upstream that does not take a message of ours in this time does not get it. */
const TIMEOUT_MS = 5_000;

/**
 * Sends an upstream a message that needs no answer: a notification, or the client's answer to a question. Resolves when
 * the upstream has taken it, rejects with `UpstreamError`. `headers` are those of the link it goes over.
 */
export async function deliver(
  transport: UpstreamTransport,
  headers: readonly string[],
  message: string,
): Promise<void> {
  const { status } = await exchange(transport, { message, headers: [...headers], timeoutMs: TIMEOUT_MS });
  // A JSON-RPC error is an answer too, and does not reject by itself.
  if (status < 300) return;
  throw new UpstreamError('http', transport.address, `answered with HTTP ${status}`, { status });
}
