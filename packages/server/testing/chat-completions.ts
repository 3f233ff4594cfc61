import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { endInChunks } from '../../../test/fixtures/chunks.ts';
import { Arrivals } from './arrivals.ts';

/** Request to a {@link ChatCompletions} server. */
export interface ReceivedCompletion {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** Body as received. */
  readonly text: string;
  /** Members of the body; empty if missing. */
  readonly model: string;
  readonly messages: readonly { readonly role: string; readonly content: string }[];
  /** Resolves when the connection is closed before the response is complete. */
  readonly disconnected: Promise<void>;
}

/** A response: by default a completion whose only choice has `content`. */
export interface CompletionScript {
  /** `choices[0].message.content`, possibly invalid. */
  readonly content?: unknown;
  /** Body instead of the completion. */
  readonly body?: string | Buffer;
  /** 200 by default. */
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Size of the chunks that the body is sent in, all at once. */
  readonly chunkBytes?: number;
  /** Delays the response until this resolves. */
  readonly after?: Promise<unknown>;
  /** Stops the response before its head, or after half of its body. */
  readonly stopsIn?: 'head' | 'body';
  /** Whether the connection is closed there; otherwise it remains open. */
  readonly hangsUp?: boolean;
}

/** Response to a request: a string is the content of a completion. */
export type ScriptedCompletion =
  | string
  | CompletionScript
  | ((request: ReceivedCompletion) => string | CompletionScript);

/** Scripted LLM behind a real server of the chat-completions API. */
export interface ChatCompletions {
  /** Base URL for connections: `http://127.0.0.1:port/v1`. */
  readonly url: string;
  /** All complete requests so far, oldest first. */
  readonly requests: readonly ReceivedCompletion[];
  /** Connections accepted so far. */
  readonly connections: number;
  /** Connections that are open now. */
  readonly open: number;
  /** Scripts the responses to the next requests, in this order. */
  script(...responses: readonly ScriptedCompletion[]): void;
  /** Response if nothing is scripted: `yes` at first. */
  defaultResult: ScriptedCompletion;
  /** Resolves with the next complete request. */
  next(): Promise<ReceivedCompletion>;
  close(): Promise<void>;
}

/** Starts the server on the loopback interface; with a certificate, with TLS and as `localhost`. */
export async function startChatCompletions(tls?: {
  readonly cert: string;
  readonly key: string;
}): Promise<ChatCompletions> {
  const requests = new Arrivals<ReceivedCompletion>();
  const scripts: ScriptedCompletion[] = [];
  const state: { defaultResult: ScriptedCompletion; connections: number } = { defaultResult: 'yes', connections: 0 };
  const sockets = new Set<object>();
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const completion = await read(request, response);
    if (completion === undefined) return;
    const scripted = scripts.shift() ?? state.defaultResult;
    requests.add(completion);
    await respond(response, typeof scripted === 'function' ? scripted(completion) : scripted);
  };
  const server = tls ? createTlsServer(tls, serve) : createServer(serve);
  server.on(tls ? 'secureConnection' : 'connection', (socket) => {
    state.connections++;
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  server.listen(0, tls ? 'localhost' : '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('the server has no TCP address');
  return {
    url: `${tls ? 'https://localhost' : 'http://127.0.0.1'}:${address.port}/v1`,
    requests: requests.all,
    get connections() {
      return state.connections;
    },
    get open() {
      return sockets.size;
    },
    script: (...responses) => void scripts.push(...responses),
    get defaultResult() {
      return state.defaultResult;
    },
    set defaultResult(scripted) {
      state.defaultResult = scripted;
    },
    next: () => requests.next(),
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

/** Reads a request; undefined if it is incomplete. */
async function read(request: IncomingMessage, response: ServerResponse): Promise<ReceivedCompletion | undefined> {
  const { method = '', url = '', headers } = request;
  const disconnected = new Promise<void>((resolve) => {
    response.once('close', () => {
      if (!response.writableFinished) resolve();
    });
  });
  const pieces: Buffer[] = [];
  try {
    for await (const piece of request) pieces.push(piece);
  } catch {
    return undefined;
  }
  const text = Buffer.concat(pieces).toString();
  const { model = '', messages = [] } = text === '' ? {} : JSON.parse(text);
  return { method, path: url, headers, text, model, messages, disconnected };
}

async function respond(response: ServerResponse, scripted: string | CompletionScript): Promise<void> {
  const script: CompletionScript = typeof scripted === 'string' ? { content: scripted } : scripted;
  const { status = 200, headers, body = completionText(script.content), after, stopsIn, hangsUp } = script;
  await after;
  const bytes = Buffer.from(body);
  if (script.chunkBytes !== undefined) {
    const type = headers?.['content-type'] ?? 'application/json';
    return endInChunks(response, { status, type, body: bytes, chunkBytes: script.chunkBytes });
  }
  if (stopsIn === 'head') {
    if (hangsUp) response.destroy();
    return;
  }
  const ofBody = { 'content-type': 'application/json', 'content-length': bytes.length };
  response.writeHead(status, { ...(status !== 204 && ofBody), ...headers });
  if (stopsIn === undefined) {
    response.end(bytes);
    return;
  }
  response.write(bytes.subarray(0, bytes.length / 2), () => {
    if (hangsUp) response.destroy();
  });
}

function completionText(content: unknown): string {
  return JSON.stringify({
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: 1_700_000_000,
    model: 'scripted',
    choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  });
}
