import type { Tool } from './tools.ts';

/** Answers with its arguments, as they have arrived. Headers are left out: they may carry credentials. */
export const echo: Tool = {
  name: 'echo',
  description: 'Answers with the arguments it was called with.',
  uri: 'sample://echo',
  input_schema: {
    type: 'object',
    properties: { message: { type: 'string', description: 'Anything' } },
    required: ['message'],
  },
  run: async ({ arguments: given }) => [JSON.stringify(given)],
};
