import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { ToolCallEvent } from '@sluice/contract';

/** What there is of the management API for who follows tool calls; the test says how it answers. */
export interface Management {
  readonly host: string;
  /** What the list answers, newest first. */
  kept: readonly ToolCallEvent[];
  /** How many requests are refused from now on, and with what status: those for the stream, or for the list. */
  reject(status: number, times: number, what?: 'stream' | 'list'): void;
  /** The next stream that somebody opens, with its head out. */
  stream(): Promise<ServerResponse>;
  /** The credentials of all requests so far. */
  readonly authorizations: readonly (string | undefined)[];
  close(): void;
}

/** Starts it on a port of its own. Who starts it also closes it. */
export async function startManagement(): Promise<Management> {
  const authorizations: (string | undefined)[] = [];
  const streams: ServerResponse[] = [];
  const opened = new EventTarget();
  let refused = { status: 0, times: 0, what: 'stream' };
  const server = createServer(({ url = '', headers }, response) => {
    authorizations.push(headers.authorization);
    const { pathname, searchParams } = new URL(url, 'http://localhost');
    const what = pathname === '/api/v1/tool-calls' ? 'list' : 'stream';
    if (refused.times > 0 && refused.what === what) {
      refused = { ...refused, times: refused.times - 1 };
      response.writeHead(refused.status).end('refused');
    } else if (what === 'list') {
      const data = management.kept.slice(0, Number(searchParams.get('limit')));
      response.setHeader('content-type', 'application/json').end(JSON.stringify({ data, error: null }));
    } else {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write(':\n\n');
      streams.push(response);
      opened.dispatchEvent(new Event('stream'));
    }
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no TCP address');
  const management: Management = {
    host: `http://127.0.0.1:${address.port}`,
    kept: [],
    reject: (status, times, what = 'stream') => {
      refused = { status, times, what };
    },
    stream: async () => {
      for (;;) {
        const stream = streams.shift();
        if (stream) return stream;
        await once(opened, 'stream');
      }
    },
    authorizations,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
  return management;
}

/** An event as the stream has it. */
export function encodeEvent(event: ToolCallEvent): string {
  return `event: ${event.eventType}\nid: ${event.eventId}\ndata: ${JSON.stringify(event)}\n\n`;
}
