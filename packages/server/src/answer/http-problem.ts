import type { PlainOutcome } from './outcome.ts';

/** What a problem is called, by its status, in the words of inference APIs. */
const TYPES: Readonly<Record<number, string>> = {
  400: 'bad_request',
  403: 'forbidden',
  404: 'not_found',
  413: 'payload_too_large',
  502: 'bad_gateway',
  503: 'service_unavailable',
  504: 'gateway_timeout',
};

/** An answer of ours where no JSON-RPC is spoken: `{"error":{"message","type"}}` (decisions 4.8). */
export function httpProblem(status: number, message: string): PlainOutcome {
  const body = JSON.stringify({ error: { message, type: TYPES[status] ?? 'internal_error' } });
  return { kind: 'plain', status, headers: ['Content-Type', 'application/json'], body };
}
