import { isIPv6 } from 'node:net';
import type { ListenAddress } from '../addresses.ts';
import { quote } from '../setting.ts';
import type { PipelineListener } from './pipeline.ts';

/** A listener that cannot listen because another one does. */
export interface AddressTaken {
  readonly listener: PipelineListener;
  readonly text: string;
}

/** The listeners whose address is that of one before them. Port 0 is another one each time. */
export function takenAddresses(listeners: readonly PipelineListener[]): AddressTaken[] {
  return listeners.flatMap((listener, index) => {
    const first = listeners.slice(0, index).find(({ address }) => same(address, listener.address));
    if (!first) return [];
    const text = `listener ${quote(listener.name)} has the address of the listener ${quote(first.name)} (${first.addressAt}); give it one of its own`;
    return [{ listener, text }];
  });
}

function same(one: ListenAddress, other: ListenAddress): boolean {
  if (one.port === 0 || one.port !== other.port) return false;
  // One that is on all interfaces is in the way of those on any.
  return normal(one) === normal(other) || [one, other].some(({ host }) => ['0.0.0.0', '::'].includes(normal({ host })));
}

/** One spelling for each address. */
function normal({ host }: Pick<ListenAddress, 'host'>): string {
  return isIPv6(host) ? (URL.parse(`http://[${host}]`)?.hostname.slice(1, -1) ?? host) : host.toLowerCase();
}
