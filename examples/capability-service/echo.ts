import type { Tool } from './tools.ts';

/** Returns its arguments as received, without headers, which may contain credentials. */
export const echo: Tool = {
  name: 'echo',
  description: 'Returns its arguments.',
  uri: 'sample://echo',
  input_schema: {
    type: 'object',
    properties: { message: { type: 'string', description: 'Any text' } },
    required: ['message'],
  },
  run: async ({ arguments: given }) => [JSON.stringify(given)],
};
