import { type Client, LOG_LEVEL_META_KEY, type LoggingLevel } from '@modelcontextprotocol/client';
import { sanitizeLine } from '../terminal/harmless.ts';
import type { Terminal } from '../terminal/terminal.ts';

/**
 * Tells the server's log messages from `level` on at standard error. Resolves with what requests have to carry in their
 * `_meta` for it: in the modern era the level goes with each request, in the legacy era it is set for the session.
 */
export async function printLogs(
  client: Client,
  { stderr }: Terminal,
  level: LoggingLevel,
  signal: AbortSignal,
  onMessage: () => void,
): Promise<Record<string, unknown>> {
  client.setNotificationHandler('notifications/message', ({ params }) => {
    onMessage();
    const text = typeof params.data === 'string' ? params.data : JSON.stringify(params.data);
    const from = params.logger === undefined ? params.level : `${params.level} ${params.logger}`;
    stderr.write(`${sanitizeLine(`[${from}] ${text}`)}\n`);
  });
  if (client.getProtocolEra() === 'modern') return { [LOG_LEVEL_META_KEY]: level };
  if (client.getServerCapabilities()?.logging !== undefined) {
    // A server that cannot set it may log all the same.
    await client.setLoggingLevel(level, { signal }).catch(() => undefined);
  }
  return {};
}
