import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, request, type ServerResponse } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { listen } from '../../../test/fixtures/http-server.ts';
import type { CodingCase } from '../src/http/client/codings.fixture.ts';

/** A reverse proxy that codes the bodies of an MCP server, as CDNs and frameworks do. */
export interface CodingProxy {
  readonly url: string;
  /** Headers of all requests so far. */
  readonly received: readonly IncomingHttpHeaders[];
  close(): Promise<void>;
}

/** Starts it in front of the server at `target`; bodies are sent in chunks of `size` bytes. */
export async function startCodingProxy(target: string, coding: CodingCase, size: number): Promise<CodingProxy> {
  const received: IncomingHttpHeaders[] = [];
  const server = createServer((incoming, outgoing) => {
    received.push(incoming.headers);
    const { method, headers } = incoming;
    const forwarded = request(new URL(incoming.url ?? '/', target), { method, headers, agent: false }, (response) => {
      const { 'content-length': _length, 'transfer-encoding': _coding, ...others } = response.headers;
      outgoing.setHeader('content-encoding', coding.lines).writeHead(response.statusCode ?? 0, others);
      outgoing.flushHeaders();
      const isStream = others['content-type'] === 'text/event-stream';
      void sendCoded(response, outgoing, coding, size, isStream ? coding.stream?.() : undefined);
    });
    forwarded.on('error', () => outgoing.destroy());
    outgoing.on('close', () => forwarded.destroy());
    incoming.pipe(forwarded);
  });
  const port = await listen(server, 0);
  return {
    url: `http://127.0.0.1:${port}${new URL(target).pathname}`,
    received,
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

async function sendCoded(
  body: AsyncIterable<Buffer>,
  outgoing: ServerResponse,
  coding: CodingCase,
  size: number,
  encoder: ReturnType<NonNullable<CodingCase['stream']>> | undefined,
): Promise<void> {
  const send = async (bytes: Buffer) => {
    for (let at = 0; at < bytes.length; at += size) {
      outgoing.write(bytes.subarray(at, at + size));
      if (size < bytes.length) await nextTurn();
    }
  };
  try {
    if (encoder) {
      const sent = (async () => {
        for await (const chunk of encoder) await send(chunk);
      })();
      for await (const chunk of body) {
        encoder.write(chunk);
        encoder.flush(() => undefined);
      }
      encoder.end();
      await sent;
    } else {
      const chunks: Buffer[] = [];
      for await (const chunk of body) chunks.push(chunk);
      await send(coding.encode(Buffer.concat(chunks)));
    }
    outgoing.end();
  } catch {
    // One of the connections was closed.
    outgoing.destroy();
  }
}
