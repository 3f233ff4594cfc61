/** The `host:port` that an http or https URL leads to. */
export function serverOf({ hostname, port, protocol }: URL): string {
  return `${hostname}:${port || (protocol === 'https:' ? 443 : 80)}`;
}
