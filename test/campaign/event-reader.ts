import { type Agent, type ClientRequest, type IncomingMessage, request } from 'node:http';

/** One event of a stream, as a client of the tests reads it. */
export interface ReadEvent {
  readonly id: string | undefined;
  readonly data: string;
}

/** An HTTP answer that has begun. */
export interface Reading {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  /** The whole text once it has ended; empty for a stream, whose events were handed on. */
  readonly text: Promise<string>;
  /** Reads no more until `resume`. */
  readonly pause: () => void;
  readonly resume: () => void;
  /** Cuts the connection. */
  readonly cut: () => void;
}

/** A request of a client that sends many of them. */
export interface Asking {
  readonly url: string;
  readonly agent: Agent;
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Ends the request, also before there is an answer. */
  readonly signal?: AbortSignal;
}

/**
 * Sends a request and reads the answer; events are handed on as they come. Rejects when there is no answer, and so does
 * its text when the connection breaks.
 */
export function ask(asking: Asking, onEvent: (event: ReadEvent) => void = () => {}): Promise<Reading> {
  const { url, agent, method, headers, body, signal } = asking;
  return new Promise((resolve, reject) => {
    const sent: ClientRequest = request(url, { method, agent, headers, ...(signal && { signal }) }, (response) => {
      let wanted = true;
      // A client that has cut the connection wants nothing more, not even what has arrived.
      const text = read(response, (event) => wanted && onEvent(event));
      // Whoever is interested asks for it; a stream may be cut by the client itself.
      text.catch(() => {});
      resolve({
        status: response.statusCode ?? 0,
        headers: response.headers,
        text,
        pause: () => void response.pause(),
        resume: () => void response.resume(),
        cut: () => {
          wanted = false;
          sent.destroy();
        },
      });
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

function read(response: IncomingMessage, onEvent: (event: ReadEvent) => void): Promise<string> {
  const isStream = response.headers['content-type'] === 'text/event-stream';
  return new Promise((resolve, reject) => {
    let text = '';
    response.setEncoding('utf8');
    response.on('data', (chunk: string) => {
      text += chunk;
      if (!isStream) return;
      const events = text.split('\n\n');
      text = events.pop() ?? '';
      for (const event of events) onEvent(parseEvent(event));
    });
    response.on('end', () => resolve(text));
    response.on('error', reject);
    response.on('close', () => reject(new Error('the connection was cut')));
  });
}

function parseEvent(text: string): ReadEvent {
  let id: string | undefined;
  let data = '';
  for (const line of text.split('\n')) {
    if (line.startsWith('id:')) id = line.slice(3).trim();
    if (line.startsWith('data:')) data += line.slice(5).trim();
  }
  return { id, data };
}
