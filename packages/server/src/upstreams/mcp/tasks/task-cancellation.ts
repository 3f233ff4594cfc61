import { isJsonObject, type JsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import type { Implementation } from '@sluice/protocol/mcp/message';
import { UpstreamError } from '../../../http/client/errors.ts';
import type { Upstream } from '../upstream.ts';
import { clientEraOf, type TaskRecord } from './task-record.ts';
import { requestTask, taskSession } from './task-requests.ts';
import type { Tasks } from './tasks.ts';

export interface TaskCancellationOptions {
  readonly tasks: Tasks;
  /** Returns the upstream of a task; undefined if it is gone. */
  upstreamOf(record: TaskRecord): Upstream | undefined;
  /** Identity of the service. */
  readonly clientInfo: Implementation;
}

/** Cancels tasks on behalf of operators. */
export class TaskCancellation {
  readonly #options: TaskCancellationOptions;

  constructor(options: TaskCancellationOptions) {
    this.#options = options;
  }

  /** Cancels a task at its upstream and records that. Rejects with `UpstreamError` or `StoreError`. */
  async cancel(record: TaskRecord): Promise<void> {
    const { tasks, upstreamOf, clientInfo } = this.#options;
    // A call of our own ends when that is recorded.
    if (record.replica !== undefined) return tasks.cancel(record);
    const upstream = upstreamOf(record);
    if (!upstream) return tasks.discard(record);
    const { text = '' } = await requestTask({
      upstream,
      session: taskSession(tasks, record, upstream),
      upstreamId: record.upstreamId,
      method: 'tasks/cancel',
      clientInfo: { ...clientInfo },
      headers: [],
    });
    const value = tryParseJson(text);
    const { code, message }: JsonObject = isJsonObject(value) && isJsonObject(value.error) ? value.error : {};
    if (code !== undefined) {
      throw new UpstreamError('rpc', upstream.transport.address, `did not cancel the task: ${JSON.stringify(message)}`);
    }
    // Clients of the extension go on to see what the upstream reports, which may complete the task nevertheless.
    if (clientEraOf(record) === 'legacy') await tasks.cancel(record);
    else tasks.end(record, { by: 'cancelled' });
  }
}
