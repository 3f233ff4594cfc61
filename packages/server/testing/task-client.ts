import { modernClient, reply } from '../../../test/fixtures/raw-client.ts';

/** A JSON-RPC response with its HTTP status. */
export interface TaskReply {
  readonly status: number;
  /** Members of the result; none in an error. */
  readonly result: Readonly<Record<string, unknown>>;
  readonly error: { readonly code: number; readonly message: string; readonly data?: unknown } | undefined;
  /** As it arrived. */
  readonly text: string;
}

/** A modern client; `params` are JSON values. */
export interface TaskClient {
  request(method: string, params: object, headers?: Readonly<Record<string, string>>): Promise<TaskReply>;
  /** Calls a tool and returns the id of the task that the response creates. Throws if it creates none. */
  create(tool: string, args?: object): Promise<string>;
  /** Requests the state of a task until it has this status. */
  until(taskId: string, status: string): Promise<TaskReply>;
}

const DECLARED = '{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}';

/** Creates a client that declares the tasks extension, unless it has other capabilities; of a user if one is given. */
export function taskClient(url: string, user?: string, capabilities: string = DECLARED): TaskClient {
  const client = modernClient(url, capabilities);
  const identity: Readonly<Record<string, string>> = user === undefined ? {} : { 'x-forwarded-user': user };
  const request: TaskClient['request'] = async (method, params, headers) => {
    const response = await client.call(method, JSON.stringify(params), { ...identity, ...headers });
    const text = reply(response);
    const { result = {}, error } = JSON.parse(text);
    return { status: response.status, result, error, text };
  };
  return {
    request,
    async create(name, args = {}) {
      const { result, text } = await request('tools/call', { name, arguments: args });
      if (typeof result.taskId !== 'string') throw new Error(`no task: ${text}`);
      return result.taskId;
    },
    async until(taskId, status) {
      for (;;) {
        const state = await request('tasks/get', { taskId });
        if (state.result.status === status) return state;
        if (state.error) throw new Error(state.text);
      }
    },
  };
}
