import type { IncomingMessage } from 'node:http';
import type { AnswerTarget } from '../answer/answer-target.ts';
import { announcesBody } from './announced-body.ts';

/** How long a client may go on sending a body that was refused. */
const LINGER_MS = 2_000;

/**
 * To be called before an answer is written that does not wait for the request's body. Closing on a client that is still
 * sending would lose it the answer: for a while, the rest is read and thrown away. A connection that is to end with the
 * answer ends when that is done.
 */
export function readAway(request: IncomingMessage, response: Pick<AnswerTarget, 'shouldKeepAlive'>): void {
  request.resume();
  if (request.complete || !announcesBody(request.headers)) return;
  const closing = response.shouldKeepAlive === false;
  // Else Node would end the connection as soon as the answer is out.
  response.shouldKeepAlive = true;
  const late = setTimeout(() => request.destroy(), LINGER_MS);
  request.once('close', () => {
    clearTimeout(late);
    if (closing) request.socket.end();
  });
}
