/** An event of a stream: its data, and its type if the API sends one. */
export type AnswerEvent = { readonly event?: string; readonly data: object | string };

/** What an answer contains, whatever its API. */
export interface AnswerContent {
  readonly id: string | undefined;
  readonly model: string | undefined;
  readonly role: unknown;
  readonly text: string;
  readonly calls: readonly { readonly name: unknown; readonly arguments: unknown }[];
}

/** The answers of a server with one of the APIs: all to the same question. */
export interface ApiAnswers {
  readonly path: string;
  readonly request: object;
  /** Whether the stream is NDJSON. */
  readonly isLines: boolean;
  readonly json: object;
  readonly events: readonly AnswerEvent[];
  /** Events that end the stream; some servers leave them out. */
  readonly end: readonly AnswerEvent[];
  /** First event without anything that is part of an answer. */
  readonly first: AnswerEvent;
  readonly error: object;
  readonly errorEvent: AnswerEvent;
  readonly errorType: string;
  readonly finish: string;
  /** Reads the content of a recorded or assembled answer. */
  content(answer: Record<string, unknown>): AnswerContent;
}

const TEXT = 'Hello 水 🚪';
const ARGUMENTS = '{"city":"Ulm"}';
const PIECES = ['{"city"', ':"Ulm"}'];
const USER = [{ role: 'user', content: 'Weather?' }];

const list = (value: unknown): readonly Record<string, unknown>[] => (Array.isArray(value) ? value.map(Object) : []);
const textOf = (value: unknown) => (typeof value === 'string' ? value : '');

const CHAT_USAGE = { prompt_tokens: 7, completion_tokens: 9, total_tokens: 16 };

function chat(): ApiAnswers {
  const head = { id: 'c-1', object: 'chat.completion.chunk', created: 5, model: 'm-1' };
  const chunk = (delta: object, finish_reason: string | null = null): AnswerEvent => ({
    data: { ...head, choices: [{ index: 0, delta, finish_reason }] },
  });
  const called = { id: 'call_1', type: 'function', function: { name: 'weather', arguments: ARGUMENTS } };
  return {
    path: '/v1/chat/completions',
    request: { model: 'm-1', messages: USER },
    isLines: false,
    json: {
      ...head,
      object: 'chat.completion',
      choices: [
        { index: 0, message: { role: 'assistant', content: TEXT, tool_calls: [called] }, finish_reason: 'tool_calls' },
      ],
      usage: CHAT_USAGE,
    },
    events: [
      chunk({ role: 'assistant', content: '' }),
      chunk({ content: 'Hello ' }),
      chunk({ content: '水 🚪' }),
      chunk({ tool_calls: [{ index: 0, ...called, function: { name: 'weather', arguments: '' } }] }),
      ...PIECES.map((piece) => chunk({ tool_calls: [{ index: 0, function: { arguments: piece } }] })),
      chunk({}, 'tool_calls'),
      { data: { ...head, choices: [], usage: CHAT_USAGE } },
    ],
    end: [{ data: '[DONE]' }],
    first: { data: { usage: { prompt_tokens: 7 }, choices: null } },
    error: { error: { message: 'busy', type: 'server_error', code: 503 } },
    errorEvent: { data: { error: { message: 'busy', type: 'server_error', code: 503 } } },
    errorType: 'server_error',
    finish: 'tool_calls',
    content({ id, model, choices }) {
      const message = Object(list(choices)[0]?.message);
      const calls = list(message.tool_calls).map(({ function: of }) => Object(of));
      return {
        id: textOf(id) || undefined,
        model: textOf(model) || undefined,
        role: message.role,
        text: textOf(message.content),
        calls: calls.map((call) => ({ name: call.name, arguments: call.arguments })),
      };
    },
  };
}

function completions(): ApiAnswers {
  const head = { id: 'cmpl-1', object: 'text_completion', created: 5, model: 'm-1' };
  const chunk = (text: string, finish_reason: string | null = null): AnswerEvent => ({
    data: { ...head, choices: [{ index: 0, text, logprobs: null, finish_reason }] },
  });
  return {
    ...chat(),
    path: '/v1/completions',
    request: { model: 'm-1', prompt: 'Weather?' },
    json: { ...head, choices: [{ index: 0, text: TEXT, logprobs: null, finish_reason: 'stop' }], usage: CHAT_USAGE },
    events: [chunk('Hello '), chunk('水 🚪'), chunk('', 'stop'), { data: { ...head, choices: [], usage: CHAT_USAGE } }],
    finish: 'stop',
    content: ({ id, model, choices }) => ({
      id: textOf(id) || undefined,
      model: textOf(model) || undefined,
      role: undefined,
      text: textOf(list(choices)[0]?.text),
      calls: [],
    }),
  };
}

function responses(): ApiAnswers {
  const output = [
    {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      status: 'completed',
      content: [{ type: 'output_text', text: TEXT, annotations: [] }],
    },
    {
      id: 'fc_1',
      type: 'function_call',
      call_id: 'call_1',
      name: 'weather',
      arguments: ARGUMENTS,
      status: 'completed',
    },
  ];
  const response = { id: 'resp_1', object: 'response', created_at: 5, model: 'm-1', error: null };
  const usage = { input_tokens: 7, output_tokens: 9, total_tokens: 16 };
  const whole = { ...response, status: 'completed', incomplete_details: null, output, usage };
  const events: readonly { readonly type: string; readonly [name: string]: unknown }[] = [
    { type: 'response.created', response: { ...response, status: 'in_progress', output: [] } },
    { type: 'response.output_item.added', output_index: 0, item: { ...output[0], content: [] } },
    {
      type: 'response.content_part.added',
      output_index: 0,
      content_index: 0,
      part: { type: 'output_text', text: '', annotations: [] },
    },
    { type: 'response.output_text.delta', output_index: 0, content_index: 0, delta: 'Hello ' },
    { type: 'response.output_text.delta', output_index: 0, content_index: 0, delta: '水 🚪' },
    { type: 'response.output_text.done', output_index: 0, content_index: 0, text: TEXT },
    { type: 'response.output_item.done', output_index: 0, item: output[0] },
    { type: 'response.output_item.added', output_index: 1, item: { ...output[1], arguments: '' } },
    ...PIECES.map((delta) => ({ type: 'response.function_call_arguments.delta', output_index: 1, delta })),
    { type: 'response.output_item.done', output_index: 1, item: output[1] },
    { type: 'response.completed', response: whole },
  ];
  const named = events.map((data, at): AnswerEvent => {
    const item_id = data.output_index === 1 ? 'fc_1' : 'msg_1';
    const isOfItem = data.output_index !== undefined && data.item === undefined;
    return { event: data.type, data: { ...data, ...(isOfItem && { item_id }), sequence_number: at } };
  });
  return {
    path: '/v1/responses',
    request: { model: 'm-1', input: 'Weather?', instructions: 'Be brief.' },
    isLines: false,
    json: whole,
    events: named,
    end: [],
    first: { data: { type: 'keepalive', sequence_number: 0 } },
    error: { ...response, status: 'failed', error: { code: 'server_error', message: 'busy' }, output: [] },
    errorEvent: { event: 'error', data: { type: 'error', code: 'server_error', message: 'busy', param: null } },
    errorType: 'server_error',
    finish: 'completed',
    content({ id, model, output: items }) {
      const message = list(items).find(({ type }) => type === 'message');
      return {
        id: textOf(id) || undefined,
        model: textOf(model) || undefined,
        role: message?.role,
        text: textOf(list(message?.content)[0]?.text),
        calls: list(items).flatMap(({ type, name, arguments: text }) =>
          type === 'function_call' ? [{ name, arguments: text }] : [],
        ),
      };
    },
  };
}

function messages(): ApiAnswers {
  const message = { id: 'msg_7', type: 'message', role: 'assistant', model: 'm-1', stop_sequence: null };
  const events: readonly { readonly type: string; readonly [name: string]: unknown }[] = [
    {
      type: 'message_start',
      message: { ...message, content: [], stop_reason: null, usage: { input_tokens: 7, output_tokens: 1 } },
    },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hello ' } },
    { type: 'ping' },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: '水 🚪' } },
    { type: 'content_block_stop', index: 0 },
    {
      type: 'content_block_start',
      index: 1,
      content_block: { type: 'tool_use', id: 'toolu_1', name: 'weather', input: {} },
    },
    ...['', ...PIECES].map((partial_json) => ({
      type: 'content_block_delta',
      index: 1,
      delta: { type: 'input_json_delta', partial_json },
    })),
    { type: 'content_block_stop', index: 1 },
    { type: 'message_delta', delta: { stop_reason: 'tool_use', stop_sequence: null }, usage: { output_tokens: 9 } },
  ];
  const error = { type: 'error', error: { type: 'overloaded_error', message: 'busy' } };
  return {
    path: '/v1/messages',
    request: { model: 'm-1', max_tokens: 9, system: 'Be brief.', messages: USER },
    isLines: false,
    json: {
      ...message,
      content: [
        { type: 'text', text: TEXT },
        { type: 'tool_use', id: 'toolu_1', name: 'weather', input: JSON.parse(ARGUMENTS) },
      ],
      stop_reason: 'tool_use',
      usage: { input_tokens: 7, output_tokens: 9 },
    },
    events: events.map((data) => ({ event: data.type, data })),
    end: [{ event: 'message_stop', data: { type: 'message_stop' } }],
    first: { event: 'ping', data: { type: 'ping' } },
    error,
    errorEvent: { event: 'error', data: error },
    errorType: 'overloaded_error',
    finish: 'tool_use',
    content({ id, model, role, content }) {
      const text = list(content).find(({ type }) => type === 'text');
      return {
        id: textOf(id) || undefined,
        model: textOf(model) || undefined,
        role,
        text: textOf(text?.text),
        calls: list(content).flatMap(({ type, name, input }) =>
          type === 'tool_use' ? [{ name, arguments: typeof input === 'string' ? input : JSON.stringify(input) }] : [],
        ),
      };
    },
  };
}

function ollamaChat(): ApiAnswers {
  const line = (message: object, more: object = { done: false }): AnswerEvent => ({
    data: { model: 'm-1', created_at: '2026-01-01T00:00:00Z', message: { role: 'assistant', ...message }, ...more },
  });
  const tool_calls = [{ function: { name: 'weather', arguments: JSON.parse(ARGUMENTS) } }];
  const done = { done: true, done_reason: 'stop', prompt_eval_count: 7, eval_count: 9 };
  return {
    path: '/api/chat',
    request: { model: 'm-1', messages: USER },
    isLines: true,
    json: { model: 'm-1', message: { role: 'assistant', content: TEXT, tool_calls }, ...done },
    events: [
      line({ content: 'Hello ' }),
      line({ content: '水 🚪' }),
      line({ content: '', tool_calls }),
      line({ content: '' }, done),
    ],
    end: [],
    first: { data: { status: 'loading model' } },
    error: { error: 'model "m-1" not found' },
    errorEvent: { data: { error: 'busy' } },
    errorType: '_OTHER',
    finish: 'stop',
    content({ model, message }) {
      const { role, content, tool_calls: calls } = Object(message);
      return {
        id: undefined,
        model: textOf(model) || undefined,
        role,
        text: textOf(content),
        calls: list(calls).map(({ function: of }) => ({
          name: Object(of).name,
          arguments: JSON.stringify(Object(of).arguments),
        })),
      };
    },
  };
}

function ollamaGenerate(): ApiAnswers {
  const done = { done: true, done_reason: 'stop', context: [1, 2], prompt_eval_count: 7, eval_count: 9 };
  const line = (response: string, more: object = { done: false }): AnswerEvent => ({
    data: { model: 'm-1', created_at: '2026-01-01T00:00:00Z', response, ...more },
  });
  return {
    ...ollamaChat(),
    path: '/api/generate',
    request: { model: 'm-1', prompt: 'Weather?', system: 'Be brief.' },
    json: { model: 'm-1', response: TEXT, ...done },
    events: [line('Hello '), line('水 🚪'), line('', done)],
    content: ({ model, response }) => ({
      id: undefined,
      model: textOf(model) || undefined,
      role: undefined,
      text: textOf(response),
      calls: [],
    }),
  };
}

/** Answers of each API. */
export const ANSWERS: Readonly<Record<string, ApiAnswers>> = {
  'chat completions': chat(),
  completions: completions(),
  responses: responses(),
  messages: messages(),
  'Ollama chat': ollamaChat(),
  'Ollama generate': ollamaGenerate(),
};

/** The content of a complete answer. */
export function wholeContent({ json, content }: ApiAnswers): AnswerContent {
  return content({ ...json });
}

/** Encodes a stream. */
export function encodeStream({ isLines }: Pick<ApiAnswers, 'isLines'>, events: readonly AnswerEvent[]): string {
  const texts = events.map(({ data }) => (typeof data === 'string' ? data : JSON.stringify(data)));
  if (isLines) return texts.map((text) => `${text}\n`).join('');
  return events
    .map(({ event }, at) => `${event === undefined ? '' : `event: ${event}\n`}data: ${texts[at]}\n\n`)
    .join('');
}
