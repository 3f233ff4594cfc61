/** Headers of one connection, which end with it, besides `Proxy-*` (RFC 9110 7.6.1; decisions 4.6). */
const HOP_BY_HOP: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** Of a request besides: what the connection to the upstream has of its own. */
const MADE_ANEW: ReadonlySet<string> = new Set(['host', 'content-length', 'expect']);

const NONE: ReadonlySet<string> = new Set();

/**
 * What of a request's headers goes on to the upstream: names and values, alternating, spelled as they came. `replaced` are
 * lower-case names of those that are not wanted.
 */
export function requestHeaders(raw: readonly string[], replaced = NONE): string[] {
  return without(raw, (name) => MADE_ANEW.has(name) || replaced.has(name));
}

/** What of the headers of an answer with this status goes back to the client; `replaced` as above. */
export function responseHeaders(status: number, raw: readonly string[], replaced = NONE): string[] {
  // An answer without content has no length (RFC 9110 8.6).
  const kept = without(raw, (name) => replaced.has(name) || (status === 204 && name === 'content-length'));
  return kept.some((name, at) => at % 2 === 0 && name.toLowerCase() === 'content-disposition')
    ? lengthLast(kept)
    : kept;
}

/** Node.js reads a `Content-Disposition` anew, in another encoding, once it knows the length: so it learns that behind. */
function lengthLast(headers: readonly string[]): string[] {
  const isLength = (at: number) => headers[at - (at % 2)]?.toLowerCase() === 'content-length';
  return [...headers.filter((_, at) => !isLength(at)), ...headers.filter((_, at) => isLength(at))];
}

function without(raw: readonly string[], more: (name: string) => boolean): string[] {
  const named = namedByConnection(raw);
  const kept: string[] = [];
  for (let index = 0; index + 1 < raw.length; index += 2) {
    const [name = '', value = ''] = [raw[index], raw[index + 1]];
    const lower = name.toLowerCase();
    if (HOP_BY_HOP.has(lower) || lower.startsWith('proxy-') || named?.has(lower) || more(lower)) continue;
    kept.push(name, value);
  }
  return kept;
}

/** The headers that `Connection` lists, which are the connection's too. Nearly all connections list none. */
function namedByConnection(raw: readonly string[]): ReadonlySet<string> | undefined {
  let named: Set<string> | undefined;
  for (let index = 0; index + 1 < raw.length; index += 2) {
    if (raw[index]?.length !== 10 || raw[index]?.toLowerCase() !== 'connection') continue;
    for (const item of (raw[index + 1] ?? '').toLowerCase().split(',')) {
      const name = item.trim();
      // Where a message ends is not for a client to take away.
      if (name === '' || name === 'close' || name === 'keep-alive' || name === 'content-length' || name === 'host')
        continue;
      named ??= new Set();
      named.add(name);
    }
  }
  return named;
}
