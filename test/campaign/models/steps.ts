import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';

/** The official clients of a base URL. */
export interface ModelClients {
  readonly openai: OpenAI;
  readonly anthropic: Anthropic;
}

/** Creates the clients. `origin` is that of the server, or of the inference listener in front of it. */
export function modelClients(origin: string, defaultHeaders: Readonly<Record<string, string>> = {}): ModelClients {
  const options = { apiKey: 'sk-campaign', maxRetries: 0, timeout: 120_000, defaultHeaders };
  return {
    openai: new OpenAI({ ...options, baseURL: `${origin}/v1` }),
    anthropic: new Anthropic({ ...options, baseURL: origin }),
  };
}

/** Something that a client does with a model; resolves with what the client assembles. */
export interface ModelStep {
  readonly name: string;
  /** `options` are further members of requests. */
  run(clients: ModelClients, model: string, options: Readonly<Record<string, unknown>>): Promise<unknown>;
}

const USER = [{ role: 'user' as const, content: 'Why do sluices have gates? Answer in one sentence.' }];
const TOOLS: OpenAI.ChatCompletionTool[] = [
  {
    type: 'function',
    function: { name: 'weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } },
  },
];
const SHORT = { max_tokens: 24 } as const;

/** What the official clients do with each API. */
export const MODEL_STEPS: readonly ModelStep[] = [
  {
    name: 'chat completion',
    run: ({ openai }, model, options) =>
      openai.chat.completions.create({ model, messages: USER, ...SHORT, ...options, stream: false }),
  },
  {
    name: 'chat completion, stream',
    run: ({ openai }, model, options) =>
      openai.chat.completions
        .stream({ model, messages: USER, ...SHORT, ...options, stream: true })
        .finalChatCompletion(),
  },
  {
    name: 'chat completion with tools and usage, stream',
    run: ({ openai }, model, options) =>
      openai.chat.completions
        .stream({
          model,
          messages: USER,
          ...SHORT,
          ...options,
          tools: TOOLS,
          stream: true,
          stream_options: { include_usage: true },
        })
        .finalChatCompletion(),
  },
  {
    name: 'completion',
    run: ({ openai }, model, options) =>
      openai.completions.create({ model, prompt: 'Water', ...SHORT, ...options, stream: false }),
  },
  {
    name: 'completion, stream',
    async run({ openai }, model, options) {
      const stream = await openai.completions.create({ model, prompt: 'Water', ...SHORT, ...options, stream: true });
      const chunks = await Array.fromAsync(stream);
      // The client assembles no completion.
      const text = chunks.map(({ choices }) => choices[0]?.text ?? '').join('');
      return { id: chunks[0]?.id, choices: [{ text }] };
    },
  },
  {
    name: 'response',
    run: ({ openai }, model, options) => openai.responses.create({ model, input: 'Water?', ...options, stream: false }),
  },
  {
    name: 'response, stream',
    run: ({ openai }, model, options) =>
      openai.responses.stream({ model, input: 'Water?', ...options }).finalResponse(),
  },
  {
    name: 'message',
    run: ({ anthropic }, model, options) =>
      anthropic.messages.create({ model, messages: USER, ...SHORT, ...options, stream: false }),
  },
  {
    name: 'message, stream',
    run: ({ anthropic }, model, options) =>
      anthropic.messages.stream({ model, messages: USER, ...SHORT, ...options }).finalMessage(),
  },
  {
    name: 'unknown model',
    run: ({ openai }, _model, options) =>
      openai.chat.completions.create({ model: 'no-such-model', messages: USER, ...SHORT, ...options, stream: false }),
  },
];
