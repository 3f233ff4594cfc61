import type { IncomingHttpHeaders } from 'node:http';
import { HEADER_HOPS } from '@sluice/protocol/mcp/constants';

/** A request that has crossed this many gateways goes in a circle (decisions 4.3). */
const MAX_HOPS = 8;

/** What the count of gateways is with us, to be sent on; undefined when the request goes in a circle. */
export function nextHop(headers: IncomingHttpHeaders): number | undefined {
  const value = headers[HEADER_HOPS];
  const hops = typeof value === 'string' && /^\d+$/.test(value) ? Number(value) : 0;
  return hops >= MAX_HOPS ? undefined : hops + 1;
}

/** The client's headers of these names (lower case), as they came: names and values, alternating. */
export function copiedHeaders(headers: IncomingHttpHeaders, names: Iterable<string>): string[] {
  const copied: string[] = [];
  for (const name of names) {
    const value = headers[name];
    for (const line of Array.isArray(value) ? value : [value]) if (line !== undefined) copied.push(name, line);
  }
  return copied;
}
