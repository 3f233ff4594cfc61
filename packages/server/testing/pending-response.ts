import type { ServerResponse } from 'node:http';

/** A pending response of a test's upstream, and whether its client has disconnected. */
export class PendingResponse {
  readonly response: ServerResponse;
  /** True once the connection has closed before the response was complete. */
  isDisconnected = false;

  constructor(response: ServerResponse) {
    this.response = response;
    response.once('close', () => {
      this.isDisconnected = !response.writableFinished;
    });
  }

  /** Starts an event stream. */
  begin(): void {
    this.response.writeHead(200, { 'content-type': 'text/event-stream' });
    this.response.flushHeaders();
  }
}
