import { Socket } from 'node:net';
import type { RequestHead } from '../exchange/exchange.ts';
import { NO_CREDENTIALS } from '../identity/authenticator.ts';
import type { ResponseLike } from './exchange.ts';
import { ServerRequest } from './server/request.ts';

/** The head of a request in tests. */
function requestHead(head: Partial<RequestHead> = {}): RequestHead {
  return {
    method: 'POST',
    target: '/default/mcp',
    headers: {},
    address: undefined,
    listener: 'mcp',
    scheme: 'http',
    inBatch: false,
    startedAt: performance.now(),
    ...head,
  };
}

/** What an exchange is created from, without a connection: a response that is discarded. */
export function exchangeParts(
  members: Partial<RequestHead> = {},
  response: Partial<ResponseLike> = {},
): [RequestHead, ServerRequest, ResponseLike] {
  const head = requestHead(members);
  const { method, target: url, headers } = head;
  const received = {
    method,
    url,
    headers,
    httpVersion: '1.1',
    contentLength: -1,
    chunked: false,
  } as const;
  const request = new ServerRequest(
    {
      ...received,
      rawHeaders: [],
      credentials: NO_CREDENTIALS,
      persistent: true,
      expectsContinue: false,
      ambiguity: undefined,
    },
    new Socket(),
  );
  const discarded: ResponseLike = {
    destroyed: false,
    headersSent: false,
    writableEnded: false,
    writeHead: () => undefined,
    write: () => true,
    end: () => undefined,
    cork: () => undefined,
    uncork: () => undefined,
    destroy: () => undefined,
    on: () => undefined,
    once: () => undefined,
  };
  return [head, request, { ...discarded, ...response }];
}
