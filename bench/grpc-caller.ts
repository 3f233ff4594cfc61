// Process with a plain grpc-js client of a capability service:
//   node bench/grpc-caller.ts --service <host:port>
// Uses one channel with default options. Prints its HTTP port as one JSON line. A POST with a CallBatch makes the calls and
// responds with the milliseconds. An unexpected reply fails the batch.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { parseArgs } from 'node:util';
import { Client, credentials, Metadata } from '@grpc/grpc-js';
import { loadProtocols } from '../packages/server/src/upstreams/grpc/channels.ts';
import type { CallBatch } from './bridge.ts';
import { deadlineMs, invokeRequest, replyText } from './messages.ts';

const { values } = parseArgs({ options: { service: { type: 'string' } } });
const client = new Client(values.service ?? '', credentials.createInsecure());
const { path, requestSerialize, responseDeserialize } = loadProtocols().toolInvoker.InvokeTool;

/** Makes the calls with a fixed number in flight and returns the milliseconds. */
function run({ era, calls, atOnce }: CallBatch): Promise<number> {
  const request = invokeRequest(era);
  const startedAt = performance.now();
  return new Promise((resolve, reject) => {
    let begun = 0;
    let done = 0;
    const next = (): void => {
      if (begun++ >= calls) return;
      const metadata = new Metadata();
      metadata.set('x-service-request-id', randomUUID());
      const options = { deadline: Date.now() + deadlineMs };
      client.makeUnaryRequest(
        path,
        requestSerialize,
        responseDeserialize,
        request,
        metadata,
        options,
        (error, reply) => {
          if (error) return reject(error);
          if (reply?.isError !== false || reply.content[0] !== replyText) return reject(new Error('unexpected reply'));
          if (++done === calls) resolve(performance.now() - startedAt);
          else next();
        },
      );
    };
    for (let lane = 0; lane < atOnce; lane++) next();
  });
}

const server = createServer(async (req, res) => {
  try {
    let body = '';
    for await (const chunk of req.setEncoding('utf8')) body += chunk;
    const ms = await run(JSON.parse(body));
    res.end(JSON.stringify({ ms }));
  } catch (error) {
    res.writeHead(500).end(String(error));
  }
});
// Keeps the connection open for the whole run.
server.keepAliveTimeout = 0;
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  if (address !== null && typeof address === 'object') console.log(JSON.stringify({ port: address.port }));
});
process.once('SIGTERM', () => process.exit(0));
