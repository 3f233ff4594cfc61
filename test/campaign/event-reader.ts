import { type Agent, type ClientRequest, type IncomingMessage, request } from 'node:http';

/** One server-sent event. */
export interface ReadEvent {
  readonly id: string | undefined;
  readonly data: string;
}

/** An HTTP response whose headers have arrived. */
export interface OpenResponse {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  /** The complete body; empty for an event stream, whose events go to the callback. */
  readonly text: Promise<string>;
  /** Stops reading until `resume`. */
  readonly pause: () => void;
  readonly resume: () => void;
  /** Destroys the connection. */
  readonly destroy: () => void;
}

/** A request of a test client. */
export interface HttpRequest {
  readonly url: string;
  readonly agent: Agent;
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Aborts the request, also before there is a response. */
  readonly signal?: AbortSignal;
}

/**
 * Sends a request and reads the response; events go to `onEvent` as they arrive. Rejects without a response; the `text` of
 * the response rejects when the connection breaks.
 */
export function send(options: HttpRequest, onEvent: (event: ReadEvent) => void = () => {}): Promise<OpenResponse> {
  const { url, agent, method, headers, body, signal } = options;
  return new Promise((resolve, reject) => {
    const sent: ClientRequest = request(url, { method, agent, headers, ...(signal && { signal }) }, (response) => {
      let isOpen = true;
      // After `destroy`, events that have already arrived are dropped too.
      const text = read(response, (event) => isOpen && onEvent(event));
      // Callers that need the text handle its rejection; a client may destroy its own stream.
      text.catch(() => {});
      resolve({
        status: response.statusCode ?? 0,
        headers: response.headers,
        text,
        pause: () => void response.pause(),
        resume: () => void response.resume(),
        destroy: () => {
          isOpen = false;
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
    response.on('close', () => reject(new Error('the connection was closed')));
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
