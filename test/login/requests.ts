import { request } from 'node:http';
import { type RequestOptions, request as secureRequest } from 'node:https';
import type { Variables } from './deploy-files.ts';

/** A response that was read to its end. */
export interface PlainResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
}

const TOOLS_LIST = JSON.stringify({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/list',
  params: {
    _meta: {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientCapabilities': {},
      'io.modelcontextprotocol/clientInfo': { name: 'raw', version: '1' },
    },
  },
});
const TOOLS_CALL = TOOLS_LIST.replace('tools/list', 'tools/call').replace(
  '"params":{',
  '"params":{"name":"greet","arguments":{},',
);

/** Another address than that of the name, and the certificate to trust. */
export type Route = Pick<RequestOptions, 'hostname' | 'servername' | 'ca'>;

/** Sends the raw path, without normalization, and follows no redirect. */
export function send(
  origin: string,
  method: string,
  path: string,
  headers: Variables = {},
  body = '',
  route: Route = {},
): Promise<PlainResponse> {
  const { protocol, host, hostname, port } = new URL(origin);
  const { promise, resolve, reject } = Promise.withResolvers<PlainResponse>();
  const options = { hostname, port, method, path, headers: { host, ...headers }, agent: false, ...route };
  (protocol === 'https:' ? secureRequest : request)(options, (response) => {
    const chunks: Buffer[] = [];
    response.on('data', (chunk) => chunks.push(chunk)).on('error', reject);
    response.on('end', () =>
      resolve({ status: response.statusCode ?? 0, headers: response.headers, text: Buffer.concat(chunks).toString() }),
    );
  })
    .on('error', reject)
    .end(body);
  return promise;
}

/** Lists the tools at a path of the MCP proxy. */
export function listTools(
  origin: string,
  path: string,
  headers: Variables = {},
  route?: Route,
): Promise<PlainResponse> {
  return send(origin, 'POST', path, { ...mcpHeaders('tools/list'), ...headers }, TOOLS_LIST, route);
}

/** Calls the tool `greet`. */
export function callTool(origin: string, path: string, headers: Variables = {}, route?: Route): Promise<PlainResponse> {
  const all = { ...mcpHeaders('tools/call'), 'mcp-name': 'greet', ...headers };
  return send(origin, 'POST', path, all, TOOLS_CALL, route);
}

/** The header of a bearer token. */
export function bearer(token: string): Variables {
  return { authorization: `Bearer ${token}` };
}

function mcpHeaders(method: string): Variables {
  return {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': '2026-07-28',
    'mcp-method': method,
  };
}
