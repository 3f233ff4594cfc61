import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { applyEdits, type Edit, members, memberText } from '@sluice/protocol/json/text';
import { type Era, INTERNAL_ERROR, INVALID_PARAMS } from '@sluice/protocol/mcp/constants';
import { type ReportedTask, readTask, reportedMember, reportedTaskEdits } from '@sluice/protocol/mcp/tasks';
import type { ResponseRewriter, RewrittenResponse } from '../relay/call-plan.ts';
import type { ByteEdit, ResultPositions } from '../relay/large-message.ts';
import { replaceRetiredCode } from '../relay/request-rewrite.ts';
import type { TaskRecord } from './task-record.ts';
import { MAX_TTL_MS, type Tasks } from './tasks.ts';

/** Why a request about a task was rejected that this owner does not have. */
export const TASK_NOT_FOUND = 'task not found';

/** Methods whose result is the state of the task. */
const STATE_METHODS: Readonly<Record<Era, readonly string[]>> = {
  legacy: ['tasks/get', 'tasks/cancel'],
  modern: ['tasks/get'],
};

/** Replaces what an upstream reports about a task: its own id, a time to live beyond ours, and a status that is final. */
export class TaskRewriter implements ResponseRewriter {
  readonly #tasks: Tasks;
  readonly #record: TaskRecord;
  readonly #method: string;
  readonly #era: Era;
  readonly #capabilities: JsonObject;
  readonly #onAccepted: () => void;

  /** `onAccepted` is called when the response is a result. */
  constructor(
    tasks: Tasks,
    record: TaskRecord,
    method: string,
    capabilities: JsonObject,
    onAccepted: () => void = () => undefined,
  ) {
    this.#onAccepted = onAccepted;
    this.#tasks = tasks;
    this.#record = record;
    this.#method = method;
    this.#era = record.era;
    this.#capabilities = capabilities;
  }

  rewrite(text: string, value: JsonObject): RewrittenResponse | undefined {
    const id = memberText(text, 'id') ?? 'null';
    if (isJsonObject(value.error)) return this.#rewriteError(text, value, value.error, id);
    if (!isJsonObject(value.result)) return undefined;
    const problem = this.#observe(value.result);
    if (problem) return errorResponse(id, problem);
    this.#onAccepted();
    const edits: Edit[] = [];
    for (const { key, start } of members(text)) {
      if (key === 'result') edits.push(...reportedTaskEdits(this.#era, text, start, this.#reported));
    }
    return { text: applyEdits(text, edits), value };
  }

  rewriteLarge(
    { members: positions, textOf }: ResultPositions,
    value: JsonObject,
    id: string,
  ): readonly ByteEdit[] | RewrittenResponse {
    const problem = positions ? this.#observe(isJsonObject(value.result) ? value.result : {}) : 'a damaged result';
    if (typeof problem === 'string' || !positions) return errorResponse(id, problem ?? '');
    return positions.flatMap((member) => {
      const text = reportedMember(this.#era, member.key, textOf(member), this.#reported);
      return text === undefined ? [] : [{ start: member.start, end: member.end, text }];
    });
  }

  get #reported(): ReportedTask {
    const { id, isCanceled } = this.#record;
    return { id, maxTtlMs: MAX_TTL_MS, status: isCanceled ? 'cancelled' : undefined };
  }

  /** Records a reported state. Returns the problem with it, if there is one. */
  #observe(result: JsonObject): string | undefined {
    if (!STATE_METHODS[this.#era].includes(this.#method)) {
      this.#onOtherResult(result);
      return undefined;
    }
    const state = readTask(this.#era, result);
    if (!state) return 'an invalid task';
    const isConsistent = this.#tasks.observe(this.#record, state, { by: 'polled', content: result });
    return isConsistent ? undefined : 'another status of a task that has ended';
  }

  /** The end of a task also becomes known by its result, and by the acknowledgment that it is canceled. */
  #onOtherResult(result: JsonObject): void {
    if (this.#method === 'tasks/result') this.#tasks.end(this.#record, { by: 'polled', content: { result } });
    if (this.#method === 'tasks/cancel') this.#tasks.end(this.#record, { by: 'cancelled' });
  }

  /** An upstream that does not know the task any more has discarded it. Its message may contain its own id. */
  #rewriteError(text: string, value: JsonObject, error: JsonObject, id: string): RewrittenResponse | undefined {
    if (error.code === INVALID_PARAMS && this.#method === 'tasks/get') {
      this.#tasks.remove(this.#record);
      const own = { code: INVALID_PARAMS, message: TASK_NOT_FOUND };
      return { text: `{"jsonrpc":"2.0","id":${id},"error":${JSON.stringify(own)}}`, value: { error: own } };
    }
    if (this.#era === 'legacy') return undefined;
    return replaceRetiredCode(text, value, this.#method, this.#capabilities);
  }
}

function errorResponse(id: string, problem: string): RewrittenResponse {
  const error = { code: INTERNAL_ERROR, message: `forwarded request failed: the upstream answered with ${problem}` };
  return { text: `{"jsonrpc":"2.0","id":${id},"error":${JSON.stringify(error)}}`, value: { error } };
}
