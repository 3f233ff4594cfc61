import { attributeText } from './attribute-text.ts';
import type { MetricAttributes } from './metric.ts';

/** Of `host:port`, what OpenTelemetry calls its parts; the brackets of an IPv6 address are not part of it. */
export function serverAddress(server: string): MetricAttributes {
  const colon = server.lastIndexOf(':');
  const port = Number(server.slice(colon + 1));
  if (colon <= 0 || !Number.isInteger(port)) return server === '' ? {} : { 'server.address': attributeText(server) };
  const host = server.slice(0, colon);
  const bare = host.startsWith('[') ? host.slice(1, -1) : host;
  return { 'server.address': attributeText(bare), 'server.port': port };
}
