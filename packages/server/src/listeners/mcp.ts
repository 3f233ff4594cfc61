import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AnswerTarget } from '../answer/answer-target.ts';
import { ClientAnswer, INTERNAL } from '../answer/client-answer.ts';
import type { Outcome } from '../answer/outcome.ts';
import { ByteCollector } from '../bytes/collector.ts';
import { INVALID_REQUEST, METHOD_NOT_FOUND } from '../mcp/protocol.ts';
import type { Chain } from '../pipeline/chain.ts';
import { RequestContext } from '../pipeline/context.ts';
import type { EventStore } from '../sessions/event-store.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import { serveBatch } from './batch.ts';
import type { Guard } from './origin.ts';

export interface McpListenerOptions {
  /** The compiled chain that every request goes through. */
  readonly chain: Chain;
  readonly guard: Guard;
  /** Where the streams of clients with a session are kept, for them to come back to. */
  readonly events: EventStore;
  /** Bound on a request's body, in bytes. */
  readonly maxRequestBytes: number;
  readonly log: TargetLogger;
}

/** Longer than proxies and load balancers keep their side, so that it is never we who close a connection in use. */
const KEEP_ALIVE_MS = 75_000;
/** How long a client may go on sending a body that was refused. */
const LINGER_MS = 2_000;
const EMPTY = Buffer.alloc(0);

/**
 * The MCP listener: plain `node:http`, one endpoint per namespace (specification, "MCP endpoint"). Reads the body,
 * runs the chain and writes its outcome. The caller listens and closes.
 *
 * Part of the hot path: measured, plain `node:http` answers a list at the speed of a proxy written in C, and every
 * framework in between costs a third of that or more.
 */
export function createMcpListener(options: McpListenerOptions): Server {
  const server = createServer({ keepAliveTimeout: KEEP_ALIVE_MS, noDelay: true }, (request, response) => {
    receive(options, request, response);
  });
  return server;
}

function receive(options: McpListenerOptions, request: IncomingMessage, response: ServerResponse): void {
  const { headers, socket } = request;
  const refusal = options.guard(socket.localAddress, headers.host, headers.origin);
  if (refusal) {
    request.resume();
    return new ClientAnswer(response, [], 'null').error(
      { code: INVALID_REQUEST, message: refusal.reason },
      refusal.status,
    );
  }
  if (request.method !== 'POST') {
    request.resume();
    return handle(options, request, response, EMPTY);
  }
  readBody(options, request, response);
}

/** Collects the body and hands it on. A body over the limit is refused as soon as that is known. */
function readBody(options: McpListenerOptions, request: IncomingMessage, response: ServerResponse): void {
  const limit = options.maxRequestBytes;
  if (Number(request.headers['content-length']) > limit) return tooLarge(request, response);
  const body = new ByteCollector();
  request.on('data', (chunk: Buffer) => {
    if (body.length + chunk.length <= limit) return body.push(chunk);
    request.removeAllListeners('data').removeAllListeners('end');
    tooLarge(request, response);
  });
  request.on('end', () => handle(options, request, response, body.take()));
  // A client that leaves in the middle of its body has asked nothing.
  request.on('error', () => response.destroy());
}

function tooLarge(request: IncomingMessage, response: ServerResponse): void {
  // Closing on a client that is still sending would lose it the answer: for a while, the rest is read and thrown away.
  const late = setTimeout(() => request.destroy(), LINGER_MS);
  request.once('close', () => clearTimeout(late)).resume();
  new ClientAnswer(response, [], 'null').error({ code: INVALID_REQUEST, message: 'request body too large' }, 413);
}

function handle(options: McpListenerOptions, request: IncomingMessage, response: ServerResponse, body: Buffer): void {
  const { method = '', url = '/', headers } = request;
  const query = url.indexOf('?');
  serve(options, new RequestContext(method, query === -1 ? url : url.slice(0, query), headers, body), response);
}

function serve(options: McpListenerOptions, context: RequestContext, response: AnswerTarget): void {
  const fail = (error: unknown): void => {
    options.log.error('request failed', { error, method: context.metadata.get('mcp.method') });
    // Half an answer cannot be taken back: the connection says that it is one.
    if (response.headersSent) response.destroy();
    // Only a JSON-RPC request can be told so in its answer: all else goes by the status.
    else
      answer(options, context, response, {
        kind: 'error',
        error: INTERNAL,
        status: context.message?.kind === 'request' ? 200 : 500,
      });
  };
  try {
    const outcome = options.chain(context);
    if (!(outcome instanceof Promise)) return answer(options, context, response, outcome);
    outcome.then((settled) => answer(options, context, response, settled)).catch(fail);
  } catch (error) {
    fail(error);
  }
}

function answer(
  options: McpListenerOptions,
  context: RequestContext,
  response: AnswerTarget,
  outcome: Outcome | undefined,
): void {
  if (response.destroyed) return;
  const idText = outcome?.kind === 'error' && outcome.idText !== undefined ? outcome.idText : context.idText;
  const { session, message, inBatch } = context;
  // The stream that the answer to a batch may be carries those to several requests: it cannot be taken up again.
  const resumable = outcome?.kind === 'stream' && session && message?.kind === 'request' && !inBatch;
  const openStream = resumable ? (request: string) => options.events.open(session.id, request) : undefined;
  const client = new ClientAnswer(response, context.responseHeaders, idText, openStream);
  if (outcome === undefined) {
    const message = `method not found: ${context.metadata.get('mcp.method')}`;
    return client.error({ code: METHOD_NOT_FOUND, message }, context.era === 'modern' ? 404 : 200);
  }
  switch (outcome.kind) {
    case 'result':
      return client.result(outcome.json, outcome.bytes, outcome.headers);
    case 'error':
      return client.error(outcome.error, outcome.status);
    case 'plain':
      return client.plain(outcome.status, outcome.headers, outcome.body);
    case 'stream':
      return outcome.start(client);
    case 'batch':
      return serveBatch(context, outcome, response, (part, target) => serve(options, part, target));
  }
}
