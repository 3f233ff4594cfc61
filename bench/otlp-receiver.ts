// An OTLP/HTTP receiver that counts what it is sent and keeps nothing of it, run as a process of its own:
//   node bench/otlp-receiver.ts
// It prints its port as one JSON line. POST /v1/traces, /v1/metrics and /v1/logs take protobuf, also compressed;
// GET / answers what came so far (Received in otlp-counts.ts).
import { createServer } from 'node:http';
import { gunzipSync } from 'node:zlib';
import { eachSpan, type Received } from './otlp-counts.ts';

const decoder = new TextDecoder();
const names = new Map<string, number>();
const received = { requests: 0, bytes: 0, spans: 0, metricExports: 0, refused: 0 };

function take(path: string | undefined, type: string | undefined, body: Buffer): number {
  received.requests++;
  received.bytes += body.length;
  if (path === '/v1/metrics') received.metricExports++;
  if (path !== '/v1/traces') return path === '/v1/metrics' || path === '/v1/logs' ? 200 : 404;
  if (type !== 'application/x-protobuf') return 415;
  eachSpan(body, (kind, name) => {
    received.spans++;
    const what = `${kind} ${decoder.decode(name)}`;
    names.set(what, (names.get(what) ?? 0) + 1);
  });
  return 200;
}

const server = createServer((req, res) => {
  if (req.method !== 'POST') {
    const answer: Received = { ...received, names: Object.fromEntries(names) };
    res.end(JSON.stringify(answer));
    return;
  }
  const pieces: Buffer[] = [];
  req.on('data', (piece: Buffer) => pieces.push(piece));
  req.on('end', () => {
    let status = 400;
    try {
      const body = Buffer.concat(pieces);
      const plain = req.headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body;
      status = take(req.url, req.headers['content-type'], plain);
    } catch {
      // Not protobuf as OTLP has it: refused, and counted as such.
    }
    if (status !== 200) received.refused++;
    // An empty message of any kind has no bytes.
    res.writeHead(status, { 'Content-Type': 'application/x-protobuf', 'Content-Length': 0 }).end();
  });
});
server.keepAliveTimeout = 0;
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  if (address !== null && typeof address === 'object') console.log(JSON.stringify({ port: address.port }));
});
process.once('SIGTERM', () => process.exit(0));
