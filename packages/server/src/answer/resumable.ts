import { POLLING_VERSION } from '@sluice/protocol/mcp/constants';
import type { ClientSession } from '../sessions/sessions.ts';
import type { CallAnswer } from './call-answer.ts';

/**
 * For a call that has lasted for so long that its client may lose the connection over it: the stream is begun, so that the
 * client has been told where to come back to for the answer (mcp 1). Only where it has a session, and reads `streams`.
 */
export function makeResumable(client: CallAnswer, session: ClientSession | undefined, streams: boolean): void {
  if (client.streaming || !streams || !session) return;
  if (session.protocolVersion >= POLLING_VERSION) client.beginStream(true);
}
