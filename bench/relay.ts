// Process with a plain relay, as a Node.js developer would write it in twenty lines:
//   node bench/relay.ts <name>=<URL> ...
// Prints its port as one JSON line. Relays /<name>/mcp to the URL.
import { Agent, createServer, request } from 'node:http';

const agent = new Agent({ keepAlive: true, maxSockets: 256, scheduling: 'lifo' });
const upstreams = new Map(
  process.argv.slice(2).map((argument) => {
    const [name, url] = argument.split('=');
    const { hostname: host, port, pathname: path } = new URL(url ?? '');
    return [`/${name}/mcp`, { agent, host, port, path }];
  }),
);

const server = createServer((req, res) => {
  const chunks: Buffer[] = [];
  req.on('data', (chunk: Buffer) => chunks.push(chunk));
  req.on('end', () => {
    const body = Buffer.concat(chunks);
    const headers = { 'content-type': 'application/json', accept: req.headers.accept, 'content-length': body.length };
    const outgoing = request({ ...upstreams.get(req.url ?? ''), method: req.method, headers }, (answer) => {
      const { 'content-type': type, 'content-length': length } = answer.headers;
      res.writeHead(
        answer.statusCode ?? 502,
        length ? { 'content-type': type, 'content-length': length } : { 'content-type': type },
      );
      answer.pipe(res);
    });
    outgoing.on('error', () => res.destroy());
    outgoing.end(body);
  });
});
server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  if (address !== null && typeof address === 'object') console.log(JSON.stringify({ port: address.port }));
});
