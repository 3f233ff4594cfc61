import { DEFAULT_NAMESPACE, type ToolInput } from '@sluice/contract';
import { ApiError, type Client, unwrap } from '@sluice/contract/client';

/** A tool that was not taken. */
export interface FailedTool {
  readonly name: string;
  readonly namespace: string;
  readonly reason: string;
}

/** How far an import is, or how it went. */
export interface ImportCounts {
  readonly created: number;
  readonly updated: number;
  /** Of tools that were there already and have been left as they were. */
  readonly existing: number;
  readonly failed: readonly FailedTool[];
  /** Tools that were not sent any more, or whose answer did not come, after Ctrl-C or because of {@link stoppedBy}. */
  readonly unfinished: number;
  /** What made it pointless to go on: a service that has gone, credentials that are not accepted. */
  readonly stoppedBy: unknown;
}

/** Settings of {@link sendTools}. */
export interface SendOptions {
  readonly client: Client;
  /** Existing tools are replaced. */
  readonly update: boolean;
  readonly interrupted: AbortSignal;
  /** Called after each tool. */
  readonly onProgress: (counts: ImportCounts) => void;
}

/**
 * Requests under way at a time. The service commits all that wait in one write, so that more of them cost it little, and
 * one after the other would wait for the disk each.
 */
const MAX_IN_FLIGHT = 32;

/** Registers all tools. A tool that is refused does not keep the others from being sent. */
export async function sendTools(tools: readonly ToolInput[], sending: SendOptions): Promise<ImportCounts> {
  const counted = { created: 0, updated: 0, existing: 0, unfinished: tools.length };
  const failed: FailedTool[] = [];
  let stoppedBy: unknown;
  const counts = (): ImportCounts => ({ ...counted, failed, stoppedBy });
  const waiting = tools.values();
  /** Sends one; false when there are no more, or it is pointless. */
  const sendNext = async (): Promise<boolean> => {
    if (stoppedBy !== undefined || sending.interrupted.aborted) return false;
    const { value: tool, done } = waiting.next();
    if (done) return false;
    try {
      const result = await sendTool(tool, sending);
      counted[result] += 1;
    } catch (error) {
      if (!(error instanceof ApiError) || error.code === undefined) {
        stoppedBy ??= error;
        return false;
      }
      const { name, namespace = DEFAULT_NAMESPACE } = tool;
      failed.push({ name, namespace, reason: `${error.message} (${error.status} ${error.code})` });
    }
    counted.unfinished -= 1;
    sending.onProgress(counts());
    return true;
  };
  const sendAll = async (): Promise<void> => {
    while (await sendNext());
  };
  // The first one finds out whether there is anybody to take them.
  if (await sendNext()) await Promise.all(Array.from({ length: MAX_IN_FLIGHT }, sendAll));
  return counts();
}

async function sendTool(tool: ToolInput, { client, update }: SendOptions): Promise<'created' | 'updated' | 'existing'> {
  try {
    await unwrap(client.POST('/api/v1/tools', { body: tool }));
    return 'created';
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== 'CONFLICT') throw error;
    if (!update) return 'existing';
    const params = { path: { name: tool.name }, query: { namespace: tool.namespace ?? DEFAULT_NAMESPACE } };
    await unwrap(client.PUT('/api/v1/tools/{name}', { params, body: tool }));
    return 'updated';
  }
}
