// Process with a plain grpc-js client of a capability service:
//   node bench/grpc-caller.ts --service <host:port>
// Uses one channel with default options. Prints its HTTP port as one JSON line. A POST with a CallBatch makes the calls and
// responds with their number and the milliseconds. An unexpected reply fails the batch.
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

/** Makes calls with a fixed number in flight, and returns their number and the milliseconds. */
async function run({ era, seconds, atOnce }: CallBatch): Promise<{ readonly calls: number; readonly ms: number }> {
  const request = invokeRequest(era);
  const startedAt = performance.now();
  let calls = 0;
  const callOnce = () =>
    new Promise<void>((resolve, reject) => {
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
          resolve();
        },
      );
    });
  const worker = async () => {
    for (; performance.now() < startedAt + seconds * 1000; calls++) await callOnce();
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  return { calls, ms: performance.now() - startedAt };
}

const server = createServer(async (req, res) => {
  try {
    let body = '';
    for await (const chunk of req.setEncoding('utf8')) body += chunk;
    res.end(JSON.stringify(await run(JSON.parse(body))));
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
