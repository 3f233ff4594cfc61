import { comparableName, HOP_BY_HOP } from '../../../http/header-lines.ts';
import { commaList, InvalidSettingError, quote, textSchema } from '../../../http/settings.ts';
import { PEER_HEADER_PREFIX } from '../../../identity/peer.ts';

const NEVER_COPIED: ReadonlySet<string> = new Set([
  'accept',
  'last-event-id',
  'host',
  'content-type',
  'content-length',
  'x-service-hops',
  // These belong to the connection with the client.
  ...HOP_BY_HOP,
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
]);

/**
 * Returns whether a header (lower case) is never copied, regardless of the allowlist. This includes the headers of replicas, and
 * all `mcp-*` headers: the relay sets these, and passes unrecognized `Mcp-Param-*` headers on regardless of the list.
 */
export function isNeverCopied(name: string): boolean {
  return name.startsWith('mcp-') || name.startsWith(PEER_HEADER_PREFIX) || NEVER_COPIED.has(name);
}

const FIELD_NAME = /^[!#$%&'+.^_`|~0-9a-z-]+$/;

/**
 * Comma-separated list of SERVICE_FORWARD_HEADERS: names of request headers that are copied upstream (lower case, unique), and a
 * warning for each name that is not allowed.
 */
export const forwardHeaders = textSchema('a comma-separated list of header names, without wildcards', (text) => {
  const listed = new Set(commaList(text).map((name) => name.toLowerCase()));
  const invalid = [...listed].find((name) => !FIELD_NAME.test(name));
  if (invalid !== undefined) throw new InvalidSettingError(`contains the invalid header name ${quote(invalid)}`);
  return {
    names: [...listed].filter((name) => !isNeverCopied(name)),
    warnings: [...listed]
      .filter(isNeverCopied)
      .map((name) => `header ${quote(name)} is never forwarded to upstreams and is ignored`),
  };
});

/**
 * Returns the header names in the label `service.forward_headers` of an entry, in lower case. A label is free text: invalid
 * names and headers that are never copied are skipped.
 */
export function labelHeaders(text: string): readonly string[] {
  const names = commaList(text).map((name) => name.toLowerCase());
  return names.filter((name) => FIELD_NAME.test(name) && !isNeverCopied(name));
}

/**
 * Returns {@link labelHeaders} without the names that are `excluded` at the time, which are lower case with `-` for `_`. `warn` is
 * called for the first label that names one of them.
 */
export function labelHeadersWithout(
  excluded: () => ReadonlySet<string> | undefined,
  warn: (name: string, label: string) => void,
): typeof labelHeaders {
  const warned = new Set<string>();
  return (text) =>
    labelHeaders(text).filter((name) => {
      const comparable = comparableName(name);
      if (!excluded()?.has(comparable)) return true;
      if (!warned.has(comparable)) warn(name, text);
      warned.add(comparable);
      return false;
    });
}
