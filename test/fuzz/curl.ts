import type { FuzzRequest } from './request.ts';

/** The request as one line for a shell. What is very long is cut, and says so. */
export function asCurl(origin: string, { method, target, headers, body }: FuzzRequest): string {
  const named = Object.entries(headers).map(([name, value]) => `-H ${quoted(Buffer.from(`${name}: ${value}`))}`);
  const data = body === undefined ? [] : [`--data-binary ${quoted(body)}`];
  const url = quoted(Buffer.from(origin + target, 'latin1'));
  return [`curl -i --path-as-is -g -X ${method}`, ...named, ...data, url].join(' ');
}

const MOST = 2_000;

/** The bytes as bash writes them: `$'…'`. */
function quoted(bytes: Buffer): string {
  const shown = [...bytes.subarray(0, MOST)].map((byte) => {
    if (byte === 0x27 || byte === 0x5c) return `\\${String.fromCharCode(byte)}`;
    return byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : `\\x${byte.toString(16).padStart(2, '0')}`;
  });
  const cut = bytes.length > MOST ? ` # and ${bytes.length - MOST} bytes more` : '';
  return `$'${shown.join('')}'${cut}`;
}
