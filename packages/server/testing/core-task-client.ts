import { ResponseReader, type SessionClient, sessionClient } from './session-client.ts';

/** A JSON-RPC response, parsed. */
// biome-ignore lint/suspicious/noExplicitAny: tests look at members of any depth.
type Reply = any;

/** A legacy client that supports elicitation; `params` are JSON values. */
export interface CoreTaskClient {
  readonly client: SessionClient;
  /** Sends a request; the response is read as it arrives. */
  send(method: string, params: object): ResponseReader;
  /** Waits for the end of a response, and returns it. */
  end(reader: ResponseReader): Promise<Reply>;
  /** Sends a request and returns its response. */
  request(method: string, params: object): Promise<Reply>;
  /** Calls a tool as a task and returns the id of that. Throws if there is none. */
  create(tool: string, args?: object, meta?: object): Promise<string>;
  /** Responds to the first message of a response, an elicitation, and returns it. */
  answer(reader: ResponseReader, content?: object): Promise<Reply>;
  /** Cancels the request that was sent last. */
  cancel(): Promise<void>;
}

/** Opens a session; `headers` go with every request. */
export async function coreTaskClient(
  url: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<CoreTaskClient> {
  const client = await sessionClient(url, { capabilities: '{"elicitation":{}}' }, headers);
  let id = 0;
  const send: CoreTaskClient['send'] = (method, params) =>
    new ResponseReader(
      url,
      'POST',
      { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...client.headers },
      JSON.stringify({ jsonrpc: '2.0', id: ++id, method, params }),
    );
  const end: CoreTaskClient['end'] = async (reader) => {
    await reader.ended;
    return JSON.parse(reader.messages.at(-1) ?? '{}');
  };
  const request: CoreTaskClient['request'] = (method, params) => end(send(method, params));
  return {
    client,
    send,
    end,
    request,
    async create(name, args = {}, meta = {}) {
      const params = { name, arguments: args, task: { ttl: 60_000 }, _meta: meta };
      const { result, error } = await request('tools/call', params);
      if (!result?.task) throw new Error(`no task: ${JSON.stringify(error ?? result)}`);
      return result.task.taskId;
    },
    async answer(reader, content = { name: 'Ann' }) {
      const question: Reply = JSON.parse(await reader.message(0));
      const result = { action: 'accept', content };
      await client.post(JSON.stringify({ jsonrpc: '2.0', id: question.id, result }));
      return question;
    },
    async cancel() {
      const params = `{"requestId":${id}}`;
      await client.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":${params}}`);
    },
  };
}
