import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { ToolCallEvent } from '@sluice/contract';

/** The part of the management API that serves tool calls, controlled by the test. */
export interface Management {
  readonly host: string;
  /** Events of the list, newest first. */
  recent: readonly ToolCallEvent[];
  /** Number of requests to reject from now on, and the status: for the stream, or for the list. */
  reject(status: number, times: number, what?: 'stream' | 'list'): void;
  /** Resolves with the next opened stream, after its headers were sent. */
  stream(): Promise<ServerResponse>;
  /** The credentials of all requests so far. */
  readonly authorizations: readonly (string | undefined)[];
  /** The target and the header `Last-Event-ID` of each opened stream so far. */
  readonly opened: readonly { readonly url: string; readonly lastId: string | string[] | undefined }[];
  close(): void;
}

/** Starts it on a free port. The caller closes it. */
export async function startManagement(): Promise<Management> {
  const authorizations: (string | undefined)[] = [];
  const streams: ServerResponse[] = [];
  const openedStreams: { url: string; lastId: string | string[] | undefined }[] = [];
  const opened = new EventTarget();
  let rejected = { status: 0, times: 0, what: 'stream' };
  const server = createServer(({ url = '', headers }, response) => {
    authorizations.push(headers.authorization);
    const { pathname, searchParams } = new URL(url, 'http://localhost');
    const what = pathname === '/api/v1/tool-calls' ? 'list' : 'stream';
    if (rejected.times > 0 && rejected.what === what) {
      rejected = { ...rejected, times: rejected.times - 1 };
      response.writeHead(rejected.status).end('refused');
    } else if (what === 'list') {
      const data = management.recent.slice(0, Number(searchParams.get('limit')));
      response.setHeader('content-type', 'application/json').end(JSON.stringify({ data, error: null }));
    } else {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write(':\n\n');
      streams.push(response);
      openedStreams.push({ url, lastId: headers['last-event-id'] });
      opened.dispatchEvent(new Event('stream'));
    }
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no TCP address');
  const management: Management = {
    host: `http://127.0.0.1:${address.port}`,
    recent: [],
    reject: (status, times, what = 'stream') => {
      rejected = { status, times, what };
    },
    stream: async () => {
      for (;;) {
        const stream = streams.shift();
        if (stream) return stream;
        await once(opened, 'stream');
      }
    },
    authorizations,
    opened: openedStreams,
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
