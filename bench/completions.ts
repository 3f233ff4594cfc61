// Process with a minimal chat-completions server:
//   node bench/completions.ts
// Prints its port as one JSON line. Sends `max_tokens` chunks, one every `metadata.every_ms` milliseconds.
import { createServer, type ServerResponse } from 'node:http';
import { at } from './caller.ts';
import { filler } from './messages.ts';
import { makePacer } from './pacer.ts';
import { completionId } from './stream-events.ts';

const model = 'bench-model-2026-01-01';
const created = 1_790_000_000;
const pacer = makePacer();
/** Pads a chunk to about 220 bytes. */
const word = filler(8);

function usage(tokens: number): object {
  return { prompt_tokens: 80, completion_tokens: tokens, total_tokens: 80 + tokens };
}

function handle(body: string, res: ServerResponse): void {
  const request: unknown = JSON.parse(body);
  const id = completionId(String(at(request, 'user')));
  const { every_ms: everyMs, together } = Object(at(request, 'metadata'));
  stream(id, Number(at(request, 'max_tokens')), Number(everyMs), Number(together), res);
}

/** Sends chunks, which contain their send time in nanoseconds and their index. */
function stream(id: string, events: number, everyMs: number, together: number, res: ServerResponse): void {
  const chunk = (rest: object) =>
    `data: ${JSON.stringify({ id, object: 'chat.completion.chunk', created, model, ...rest })}\n\n`;
  const start = `data: {"id":"${id}","object":"chat.completion.chunk","created":${created},"model":"${model}","choices":[{"index":0,"delta":{`;
  let sent = 0;
  res.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache' });
  res.flushHeaders();
  const send = () => {
    if (res.destroyed) return false;
    if (sent === events) {
      const finish = chunk({ choices: [{ index: 0, delta: {}, logprobs: null, finish_reason: 'stop' }] });
      res.end(`${finish}${chunk({ choices: [], usage: usage(events) })}data: [DONE]\n\n`);
      return false;
    }
    const role = sent === 0 ? '"role":"assistant",' : '';
    const content = `${process.hrtime.bigint()} #${++sent} ${word}`;
    res.write(`${start}${role}"content":"${content}"},"logprobs":null,"finish_reason":null}]}\n\n`);
    return true;
  };
  pacer.add(everyMs, send, together);
}

const server = createServer((req, res) => {
  let body = '';
  req.setEncoding('utf8');
  req.on('data', (chunk: string) => {
    body += chunk;
  });
  req.on('end', () => handle(body, res));
});
// Keeps idle connections open, because reconnecting is not measured.
server.keepAliveTimeout = 0;
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  if (address !== null && typeof address === 'object') console.log(JSON.stringify({ port: address.port }));
});
process.once('SIGTERM', () => process.exit(0));
