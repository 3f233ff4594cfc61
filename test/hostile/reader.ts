import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { listen } from '../fixtures/http-server.ts';
import { type CurrentProcess, serveParent, startProcess } from '../fixtures/own-process.ts';

/** Requests up to this size may be calls, which are sent on; larger ones are only read. */
const MAX_CALL_BYTES = 16 * 1024;
const LIST = '{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}}';

/**
 * Starts a process that only reads: it reads requests, pipes calls to the upstream of their namespace and the responses
 * back, and parses nothing. Its latency under a load is that of the machine.
 */
export async function startReader(
  upstreams: Readonly<Record<string, string>>,
): Promise<CurrentProcess & { readonly url: string }> {
  const started = await startProcess(new URL(import.meta.url), [JSON.stringify(upstreams)]);
  return { ...started, url: String(started.ready) };
}

async function serve(upstreams: Readonly<Record<string, string>>): Promise<void> {
  const handle = async (incoming: IncomingMessage, response: ServerResponse) => {
    const chunks: Buffer[] = [];
    let length = 0;
    for await (const chunk of incoming) {
      length += chunk.length;
      if (length <= MAX_CALL_BYTES) chunks.push(chunk);
    }
    const address = upstreams[incoming.url?.split('/')[1] ?? ''];
    if (address === undefined || length > MAX_CALL_BYTES) {
      response.writeHead(200, { 'content-type': 'application/json' }).end(LIST);
      return;
    }
    const { host: _host, ...headers } = incoming.headers;
    const outgoing = request(address, { method: 'POST', headers });
    outgoing.once('error', () => response.destroy());
    outgoing.once('response', (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    outgoing.end(Buffer.concat(chunks));
  };
  const server = createServer((incoming, response) => {
    handle(incoming, response).catch(() => response.destroy());
  });
  serveParent(`http://127.0.0.1:${await listen(server, 0)}`, {});
}

if (import.meta.main) await serve(JSON.parse(process.argv[2] ?? '{}'));
