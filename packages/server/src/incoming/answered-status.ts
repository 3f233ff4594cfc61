import type { ServerResponse } from 'node:http';

const CLIENT_LEFT = 499;

/** The status of an answer; of one that was never begun, since its client has left, the one that logs have for that. */
export function answeredStatus({
  headersSent,
  statusCode,
}: Pick<ServerResponse, 'headersSent' | 'statusCode'>): number {
  return headersSent ? statusCode : CLIENT_LEFT;
}
