import { commaList, InvalidSettingError, quote, type Setting } from './setting.ts';

/** Names of request headers to copy upstream, lower case, each once, and a warning for each name that never is. */
interface ForwardHeaders {
  readonly names: readonly string[];
  readonly warnings: readonly string[];
}

const NEVER_COPIED: ReadonlySet<string> = new Set([
  'accept',
  'last-event-id',
  'host',
  'content-type',
  'content-length',
  'x-service-hops',
  // Hop-by-hop: they speak of the connection to us.
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/**
 * True for a header (lower case) that no allow-list can make the relay copy (decisions 4.7). `mcp-*` is all denied:
 * the relay writes those headers itself, and passes unrecognised `Mcp-Param-*` on without being told to (mcp.md 4).
 */
function isNeverCopied(name: string): boolean {
  return name.startsWith('mcp-') || NEVER_COPIED.has(name);
}

const HEADER_NAME = /^[!#$%&'+.^_`|~0-9a-z-]+$/;

/** The comma list of SERVICE_FORWARD_HEADERS (decisions 4.7). */
export const forwardHeaders: Setting<ForwardHeaders> = {
  accepts: 'a comma list of header names, without wildcards',
  parse: (text) => {
    const asked = new Set(commaList(text).map((name) => name.toLowerCase()));
    const wrong = [...asked].find((name) => !HEADER_NAME.test(name));
    if (wrong !== undefined) throw new InvalidSettingError(`has ${quote(wrong)}, which is not a header name`);
    return {
      names: [...asked].filter((name) => !isNeverCopied(name)),
      warnings: [...asked]
        .filter(isNeverCopied)
        .map((name) => `header ${quote(name)} is never copied from client to upstream and is left out`),
    };
  },
};

/**
 * The names in the label `service.forward_headers` of an entry that can be copied, lower case. A label is free text:
 * whatever else stands in it is left out.
 */
export function labelledHeaders(text: string): readonly string[] {
  const names = commaList(text).map((name) => name.toLowerCase());
  return names.filter((name) => HEADER_NAME.test(name) && !isNeverCopied(name));
}
