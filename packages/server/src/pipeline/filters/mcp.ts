import type { IncomingHttpHeaders } from 'node:http';
import { checkModernHeaders, eraOf } from '../../mcp/era-of-request.ts';
import { parseMessage } from '../../mcp/message.ts';
import type { Filter } from '../chain.ts';
import type { RequestContext } from '../context.ts';
import { type Outcome, rpcError } from '../outcome.ts';

/** Settings of the `mcp` filter (decisions 1.4). */
export interface McpSettings {
  /** `reject` answers every malformed message with HTTP 400; `continue` uses the protocol's own statuses (mcp 1). */
  readonly on_invalid: 'continue' | 'reject';
}

/**
 * Parses the JSON-RPC message, settles which era it belongs to, and sets `mcp.method`. What is malformed, or whose
 * headers contradict its body, is answered here and reaches nothing behind.
 */
export function mcp(settings: McpSettings): Filter {
  return (context) => {
    const outcome = context.method === 'POST' ? parsePost(context) : checkBodyless(context);
    if (settings.on_invalid === 'reject' && outcome?.kind === 'error') return { ...outcome, status: 400 };
    return outcome;
  };
}

function parsePost(context: RequestContext): Outcome | undefined {
  const message = parseMessage(context.body);
  if (message.kind === 'malformed') {
    const { code, message: reason, idText } = message;
    return { kind: 'error', error: { code, message: reason }, status: 400, idText };
  }
  context.message = message;
  if (message.kind === 'response') return undefined;
  context.metadata.set('mcp.method', message.method);
  const era = eraOf(message, context.headers);
  if (era.kind === 'refused') return rpcError(era.code, era.message, 400, era.data);
  context.era = era.era;
  if (era.era === 'legacy') return undefined;
  const mismatch = checkModernHeaders(message, context.headers);
  return mismatch && rpcError(mismatch.code, mismatch.message, 400);
}

/** GET and DELETE belong to legacy sessions; without one, and for every other method, there is only POST (mcp 6). */
function checkBodyless(context: RequestContext): Outcome | undefined {
  const { method, headers } = context;
  const session = method === 'GET' || method === 'DELETE';
  if (session && hasSession(headers)) return undefined;
  return { kind: 'plain', status: 405, headers: ['Allow', 'POST, GET, DELETE, OPTIONS'] };
}

function hasSession(headers: IncomingHttpHeaders): boolean {
  return headers['mcp-session-id'] !== undefined && !isModernVersion(headers['mcp-protocol-version']);
}

function isModernVersion(version: string | string[] | undefined): boolean {
  return typeof version === 'string' && version >= '2026-07-28';
}
