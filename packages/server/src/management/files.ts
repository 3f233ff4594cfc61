import { Readable } from 'node:stream';
import send from '@fastify/send';
import type { ServerRequest } from '../http/server/request.ts';
import type { ApiResponse } from './responses.ts';

/** Options of {@link openFile}. */
type FileOptions = Pick<send.SendOptions, 'immutable' | 'maxAge'> & { readonly root: string };

/**
 * Returns the response with a file below `root`, or the part of it or the confirmation that the headers of the request ask for.
 * `isFile` is false if there is none or the request cannot be met; then only the status of the response is meaningful.
 */
export async function openFile(
  { method, headers }: ServerRequest,
  path: string,
  options: FileOptions,
): Promise<{ readonly isFile: boolean; readonly response: ApiResponse }> {
  // The library requires a stream, of which it reads nothing.
  const request = Object.assign(new Readable(), { method, headers });
  const {
    type,
    statusCode: status,
    headers: sent,
    stream: body,
  } = await send(request, path, { ...options, index: false });
  // Its Content-Length is a number.
  const lowerCased = Object.entries(sent).map(([name, value]) => [name.toLowerCase(), String(value)]);
  return { isFile: type === 'file', response: { status, headers: Object.fromEntries(lowerCased), body } };
}
