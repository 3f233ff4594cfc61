import type { IncomingHttpHeaders } from 'node:http';
import type { Socket } from 'node:net';
import type { Exchange } from '../../exchange/exchange.ts';
import { RequestBody } from './request-body.ts';
import type { RequestHead } from './request-parser.ts';

/** What is known of a request that is authenticated. */
export type AdmittedRequest = Pick<Exchange, 'authenticated' | 'head' | 'facts'>;

/** A request, from its head on. */
export class ServerRequest {
  readonly method: string;
  /** Path and query; without the prefix of the public URL, once that was removed. */
  url: string;
  readonly headers: IncomingHttpHeaders;
  readonly head: RequestHead;
  /** The socket of its connection. */
  readonly socket: Socket;
  readonly body: RequestBody;
  /** Whether the connection may stay open after the response: at first, whether the client allows it. */
  persistent: boolean;
  /** Its exchange, once it is authenticated; undefined for requests that are not. */
  admitted: AdmittedRequest | undefined = undefined;
  /** It was ended because its credential is not accepted any more: nothing may be executed for it. */
  isRevoked = false;

  constructor(head: RequestHead, socket: Socket) {
    this.method = head.method;
    this.url = head.url;
    this.headers = head.headers;
    this.head = head;
    this.socket = socket;
    this.body = new RequestBody(socket);
    this.persistent = head.persistent;
  }
}
