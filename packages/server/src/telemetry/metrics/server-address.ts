import { attributeText } from './attribute-text.ts';
import type { MetricAttributes } from './metric.ts';

const DEFAULT_PORTS: Readonly<Record<string, number>> = { 'http:': 80, 'https:': 443 };

/** Of `host:port` or an origin, what OpenTelemetry calls them; the brackets of an IPv6 address are not part of it. */
export function serverAddress(server: string): MetricAttributes {
  const url = URL.parse(server.includes('://') ? server : `tcp://${server}`);
  if (!url || url.hostname === '') return {};
  const port = url.port === '' ? DEFAULT_PORTS[url.protocol] : Number(url.port);
  const address = attributeText(url.hostname.replace(/^\[|\]$/g, ''));
  return port === undefined ? { 'server.address': address } : { 'server.address': address, 'server.port': port };
}
