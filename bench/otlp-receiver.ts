// Process with an OTLP/HTTP receiver that counts exports:
//   node bench/otlp-receiver.ts
// Prints its port as one JSON line. POST /v1/traces, /v1/metrics and /v1/logs accept protobuf, optionally gzipped; GET /
// returns the totals (Received).
import { createServer } from 'node:http';
import { gunzipSync } from 'node:zlib';

/** Totals of the receiver. */
export interface Received {
  readonly requests: number;
  /** Uncompressed bytes of the bodies. */
  readonly bytes: number;
  readonly spans: number;
  readonly metricExports: number;
  /** Rejected requests. */
  readonly refused: number;
  /** Spans by kind and name, such as `server tools/call lookup`. */
  readonly names: Readonly<Record<string, number>>;
}

/** Span kinds by number (opentelemetry.proto.trace.v1.Span.SpanKind). */
const kinds = ['unspecified', 'internal', 'server', 'client', 'producer', 'consumer'] as const;

/**
 * Invokes the callback for each span of an ExportTraceServiceRequest, with its kind and name. Reads only the fields
 * resource_spans (1), scope_spans (2), spans (2), and name (5) and kind (6) of a span.
 *
 * @throws RangeError for invalid protobuf
 */
export function eachSpan(body: Uint8Array, found: (kind: (typeof kinds)[number], name: Uint8Array) => void): void {
  for (const resource of fields(body)) {
    if (resource.number !== 1) continue;
    for (const scope of fields(resource.bytes)) {
      if (scope.number !== 2) continue;
      for (const span of fields(scope.bytes)) if (span.number === 2) readSpan(span.bytes, found);
    }
  }
}

function readSpan(bytes: Uint8Array, found: Parameters<typeof eachSpan>[1]): void {
  let name = new Uint8Array();
  let kind = 0;
  for (const field of fields(bytes)) {
    if (field.number === 5) name = new Uint8Array(field.bytes);
    if (field.number === 6) kind = field.value;
  }
  found(kinds[kind] ?? 'unspecified', name);
}

interface Field {
  readonly number: number;
  /** Value of a varint; otherwise 0. */
  readonly value: number;
  /** Value of a length-delimited field; otherwise empty. */
  readonly bytes: Uint8Array;
}

const nothing = new Uint8Array();

/** Iterates over the fields of a message. */
function* fields(message: Uint8Array): Generator<Field> {
  let at = 0;
  const varint = () => {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = message[at++];
      if (byte === undefined) throw new RangeError('a message ends within a number');
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  };
  const take = (length: number) => {
    if (at + length > message.length) throw new RangeError('a field is longer than its message');
    at += length;
    return message.subarray(at - length, at);
  };
  while (at < message.length) {
    const key = varint();
    const number = Math.floor(key / 8);
    if (key % 8 === 0) yield { number, value: varint(), bytes: nothing };
    else if (key % 8 === 1) yield { number, value: 0, bytes: take(8) };
    else if (key % 8 === 2) yield { number, value: 0, bytes: take(varint()) };
    else if (key % 8 === 5) yield { number, value: 0, bytes: take(4) };
    else throw new RangeError(`wire type ${key % 8} is unknown`);
  }
}

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
    const response: Received = { ...received, names: Object.fromEntries(names) };
    res.end(JSON.stringify(response));
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
      // Invalid body: rejected and counted.
    }
    if (status !== 200) received.refused++;
    // An empty protobuf message has no bytes.
    res.writeHead(status, { 'Content-Type': 'application/x-protobuf', 'Content-Length': 0 }).end();
  });
});
server.keepAliveTimeout = 0;
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  if (address !== null && typeof address === 'object') console.log(JSON.stringify({ port: address.port }));
});
process.once('SIGTERM', () => process.exit(0));
