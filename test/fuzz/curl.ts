import type { FuzzRequest } from './request.ts';

/** Formats the request as one shell line. Long values are truncated, with a comment. */
export function asCurl(origin: string, { method, target, headers, body }: FuzzRequest): string {
  const headerArgs = Object.entries(headers).map(([name, value]) => `-H ${quote(Buffer.from(`${name}: ${value}`))}`);
  const data = body === undefined ? [] : [`--data-binary ${quote(body)}`];
  const url = quote(Buffer.from(origin + target, 'latin1'));
  return [`curl -i --path-as-is -g -X ${method}`, ...headerArgs, ...data, url].join(' ');
}

/** Maximum length of a value in bytes. */
const MAX_BYTES = 2_000;

/** Quotes bytes for bash: `$'…'`. */
function quote(bytes: Buffer): string {
  const escaped = [...bytes.subarray(0, MAX_BYTES)].map((byte) => {
    if (byte === 0x27 || byte === 0x5c) return `\\${String.fromCharCode(byte)}`;
    return byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : `\\x${byte.toString(16).padStart(2, '0')}`;
  });
  const truncation = bytes.length > MAX_BYTES ? ` # truncated: ${bytes.length - MAX_BYTES} more bytes` : '';
  return `$'${escaped.join('')}'${truncation}`;
}
