import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { namesTwoHosts } from './two-hosts.ts';
import { unclearFraming } from './unclear-framing.ts';

/**
 * Finds the requests of one server that are refused with 400, since two readers of their heads could take them for
 * different requests: the same ones on every listener.
 */
export class UnclearHeads {
  /** Connections that end, because it is not clear what came on them. */
  readonly #refused = new WeakSet<Socket>();

  /**
   * Why the request is refused; undefined where its head has one meaning. The caller ends the connection with the answer;
   * Node goes on reading what has come already, which may be part of the request: all of that is refused too.
   */
  reasonFor(request: IncomingMessage): string | undefined {
    const { socket } = request;
    if (this.#refused.has(socket)) return 'it follows a request that was refused';
    const reason = unclearHead(request);
    if (reason !== undefined) this.#refused.add(socket);
    return reason;
  }
}

function unclearHead(request: IncomingMessage): string | undefined {
  const { headers, httpVersion, url = '/' } = request;
  if (headers.host === undefined && httpVersion === '1.1') return 'a Host header is required';
  if (namesTwoHosts(request)) return 'the header Host is there twice; send it once';
  // A host in the target would stand against `Host`, which is what is judged; `*` is no path that anything could answer.
  if (!url.startsWith('/')) return 'the target of a request begins with a slash';
  if (url.includes('#')) return 'the target of a request has no fragment; encode # as %23';
  return unclearFraming(request);
}
