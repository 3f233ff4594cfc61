import { post, type RawResponse } from '../fixtures/raw-client.ts';
import type { RawUpstream } from '../fixtures/raw-upstream.ts';
import type { HostileTarget } from './hostile-case.ts';

/** Returns a summary of a response: its status, and its error if it has one. */
export function summaryOf({ status, text }: RawResponse): string {
  const error = text.length < 10_000 ? /"(?:message|text)":\s*"([^"]{0,120})/.exec(text)?.[1] : undefined;
  return error === undefined ? `${status}, ${text.length} bytes` : `${status} ${error}`;
}

/** A request of a modern client: the members of its `params` besides `_meta`, and further ones of `_meta`, as JSON text. */
export interface ModernRequest {
  readonly params?: string;
  readonly capabilities?: string;
  readonly meta?: string;
}

/** Calls the tool `a` as a modern client. */
export async function callTool(
  target: HostileTarget,
  namespace: string,
  { params = '"arguments":{}', capabilities = '{}', meta = '' }: ModernRequest = {},
): Promise<string> {
  const envelope = [
    '"io.modelcontextprotocol/protocolVersion":"2026-07-28"',
    `"io.modelcontextprotocol/clientCapabilities":${capabilities}`,
    '"io.modelcontextprotocol/clientInfo":{"name":"h","version":"1"}',
    ...(meta === '' ? [] : [meta]),
  ].join(',');
  const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{${envelope}},"name":"a",${params}}}`;
  const headers = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': 'a' };
  return summaryOf(await post(`${target.mcp}/${namespace}/mcp`, body, headers));
}

/** Lets the upstream answer calls with a body in which `$id` is the id of the request. */
export function answerWith(upstream: RawUpstream, type: 'application/json' | 'text/event-stream', body: string): void {
  upstream.scripts['tools/call'] = { kind: 'http', status: 200, type, body };
}

/** The JSON text of a response to a call, with this result. */
export function responseWith(result: string): string {
  return `{"jsonrpc":"2.0","id":$id,"result":${result}}`;
}

/** The field `content` (2) of a reply of a capability service, with this text. */
export function grpcContent(text: string): Buffer {
  const bytes = Buffer.from(text);
  const length: number[] = [];
  for (let rest = bytes.length; ; rest >>>= 7) {
    length.push(rest > 0x7f ? (rest & 0x7f) | 0x80 : rest);
    if (rest <= 0x7f) break;
  }
  return Buffer.concat([Buffer.from([0x12, ...length]), bytes]);
}
