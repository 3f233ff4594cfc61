import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { Arrivals } from './arrivals.ts';

/** What a {@link ChatCompletions} was asked. */
export interface AskedCompletion {
  readonly method: string;
  /** With its query. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** The body as it came. */
  readonly text: string;
  /** What it says; empty where it says nothing. */
  readonly model: string;
  readonly messages: readonly { readonly role: string; readonly content: string }[];
  /** Resolves when the connection has ended before the answer was complete. */
  readonly left: Promise<void>;
}

/** One answer. By default a completion whose only choice has `content`. */
export interface CompletionScript {
  /** `choices[0].message.content`, which may also be what it should not be. */
  readonly content?: unknown;
  /** A body in place of the completion, byte for byte. */
  readonly body?: string | Buffer;
  /** 200 by default. */
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Nothing is sent before this has resolved. */
  readonly after?: Promise<unknown>;
  /** Where the answer goes no further: before its head, or after half of its body. */
  readonly stopsIn?: 'head' | 'body';
  /** Whether the connection breaks there; otherwise there is silence. */
  readonly hangsUp?: boolean;
}

/** How a request is answered: a text is the content of a completion. */
export type ScriptedCompletion = string | CompletionScript | ((asked: AskedCompletion) => string | CompletionScript);

/** An LLM that says what the test wants it to, behind a real server of the chat-completions API. */
export interface ChatCompletions {
  /** Base address, as connections have it: `http://127.0.0.1:port/v1`. */
  readonly url: string;
  /** All requests so far whose bodies have come, oldest first. */
  readonly asked: readonly AskedCompletion[];
  /** Connections accepted so far. */
  readonly connections: number;
  /** Connections that are open now. */
  readonly open: number;
  /** The next requests are answered so, one each, in this order. */
  script(...answers: readonly ScriptedCompletion[]): void;
  /** How requests are answered that nothing was scripted for: `yes` at first. */
  otherwise: ScriptedCompletion;
  /** The next request that nobody has taken, as soon as it is here. */
  next(): Promise<AskedCompletion>;
  close(): Promise<void>;
}

/** Starts one on the loopback interface, with TLS and as `localhost` where it gets a certificate. */
export async function startChatCompletions(tls?: {
  readonly cert: string;
  readonly key: string;
}): Promise<ChatCompletions> {
  const asked = new Arrivals<AskedCompletion>();
  const scripts: ScriptedCompletion[] = [];
  const state: { otherwise: ScriptedCompletion; connections: number } = { otherwise: 'yes', connections: 0 };
  const sockets = new Set<object>();
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const completion = await read(request, response);
    if (completion === undefined) return;
    const scripted = scripts.shift() ?? state.otherwise;
    asked.add(completion);
    await answer(response, typeof scripted === 'function' ? scripted(completion) : scripted);
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
    asked: asked.all,
    get connections() {
      return state.connections;
    },
    get open() {
      return sockets.size;
    },
    script: (...answers) => void scripts.push(...answers),
    get otherwise() {
      return state.otherwise;
    },
    set otherwise(scripted) {
      state.otherwise = scripted;
    },
    next: () => asked.next(),
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

/** The request, once it is complete; undefined when it never was. */
async function read(request: IncomingMessage, response: ServerResponse): Promise<AskedCompletion | undefined> {
  const { method = '', url = '', headers } = request;
  const left = new Promise<void>((resolve) => {
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
  return { method, path: url, headers, text, model, messages, left };
}

async function answer(response: ServerResponse, scripted: string | CompletionScript): Promise<void> {
  const script: CompletionScript = typeof scripted === 'string' ? { content: scripted } : scripted;
  const { status = 200, headers, body = completionText(script.content), after, stopsIn, hangsUp } = script;
  await after;
  const bytes = Buffer.from(body);
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
