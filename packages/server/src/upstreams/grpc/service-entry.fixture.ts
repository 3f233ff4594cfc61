import type { ServiceEntry } from '../../registry/entries.ts';

/** A tool invoker called `weather` at a port of the loopback interface. */
export function entryAt(port: number, change: Partial<ServiceEntry> = {}): ServiceEntry {
  return {
    name: 'weather',
    host: '127.0.0.1',
    port,
    serviceType: 'tool-invoker',
    serviceSubType: undefined,
    languageName: undefined,
    labels: {},
    id: undefined,
    source: 0,
    unknown: undefined,
    ...change,
  };
}
