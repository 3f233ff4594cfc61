import type { IncomingHttpHeaders } from 'node:http';
import { HEADER_HOPS, INTERNAL_ERROR } from '@sluice/protocol/mcp/constants';
import { type ErrorOutcome, rpcError } from '../http/outcome.ts';

/** A request that passed through this many gateways is in a forwarding loop. */
const MAX_HOPS = 8;

/** Outcome of a request that passed through too many gateways. */
export const FORWARDING_LOOP: ErrorOutcome = rpcError(INTERNAL_ERROR, 'forwarding loop');

/**
 * Returns names and values, alternating, of the headers that accompany a request upstream: the hop count, and those that the
 * operator forwards, by the setting or the `label` of the called entry. Undefined in a forwarding loop: see {@link
 * FORWARDING_LOOP}.
 */
export type UpstreamHeaders = (received: IncomingHttpHeaders, label?: string) => string[] | undefined;

/**
 * `names`: lower-case names of headers that every upstream gets (SERVICE_FORWARD_HEADERS). `parseNames` parses the same list in
 * the label of an entry, without the names that are never copied.
 */
export function upstreamHeaders(
  names: readonly string[],
  parseNames: (text: string) => readonly string[],
): UpstreamHeaders {
  return (received, label) => {
    const hops = received[HEADER_HOPS];
    const count = typeof hops === 'string' && /^\d+$/.test(hops) ? Number(hops) : 0;
    if (count >= MAX_HOPS) return undefined;
    const headers = [HEADER_HOPS, String(count + 1)];
    const copied = label === undefined ? names : new Set([...names, ...parseNames(label)]);
    for (const name of copied) {
      const value = received[name];
      for (const line of Array.isArray(value) ? value : [value]) if (line !== undefined) headers.push(name, line);
    }
    return headers;
  };
}
