import type { ServerResponse } from 'node:http';

/** An answer of a test's upstream that is still to be written, and whether whoever asked has left. */
export class OpenAnswer {
  readonly response: ServerResponse;
  /** True once the connection has ended before the answer was complete. */
  left = false;

  constructor(response: ServerResponse) {
    this.response = response;
    response.once('close', () => {
      this.left = !response.writableFinished;
    });
  }

  /** Begins an event stream. */
  begin(): void {
    this.response.writeHead(200, { 'content-type': 'text/event-stream' });
    this.response.flushHeaders();
  }
}
