// The service of the sample plugin: node examples/console-plugin/greeter.mjs [port]
import { createServer } from 'node:http';
import { fileURLToPath } from 'node:url';

const greetings = ['Hello, world!'];

/** The service, not listening yet. */
export const greeter = createServer(async (request, response) => {
  /** @param {number} status @param {unknown} body */
  const send = (status, body) =>
    void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  if (request.url !== '/greetings') return send(404, { error: 'not found' });
  if (request.method === 'GET') return send(200, greetings);
  if (request.method !== 'POST') return send(405, { error: 'use GET or POST' });
  let text = '';
  for await (const chunk of request.setEncoding('utf8')) {
    text += chunk;
    if (text.length > 10_000) return send(413, { error: 'too large' });
  }
  try {
    const { name } = JSON.parse(text);
    if (typeof name !== 'string' || name === '') return send(400, { error: 'name is required' });
    greetings.push(`Hello, ${name}!`);
    return send(201, greetings.at(-1));
  } catch {
    return send(400, { error: 'expected a JSON object' });
  }
});

if (process.argv[1] === fileURLToPath(import.meta.url)) greeter.listen(Number(process.argv[2] ?? 7070), '127.0.0.1');
