import type { ServerHttp2Stream } from 'node:http2';
import { framed, HEAD } from '../../packages/server/src/upstreams/grpc/fixtures/raw-service.ts';

/** Responds with messages, at the pace of the reader. */
export function grpcReplies(count: number, message: Buffer): (stream: ServerHttp2Stream) => void {
  const frame = framed(message);
  return (stream) => {
    stream.respond(HEAD, { waitForTrailers: true });
    stream.once('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
    let remaining = count;
    const write = (): void => {
      while (remaining-- > 0 && !stream.destroyed) if (!stream.write(frame)) return void stream.once('drain', write);
      if (!stream.destroyed) stream.end();
    };
    write();
  };
}
