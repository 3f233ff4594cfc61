import { at, parseJson } from './json.ts';
import { calledTool, callMessage, type Era, filler } from './messages.ts';

/** The namespace of the tool that the part `bridge` registers, and its type, which is the name of the service too. */
export const bridged = { namespace: 'bridge', toolType: 'bench' } as const;

/** The tool of which a capability service carries out every call, as the management API takes it. */
export const bridgedTool = {
  name: calledTool,
  namespace: bridged.namespace,
  description: filler(120),
  uri: 'bench://customers',
  toolType: bridged.toolType,
  input_schema: {
    type: 'object',
    properties: {
      query: { type: 'string', description: 'Words to look for in the customer record' },
      limit: { type: 'integer', minimum: 1, maximum: 100, default: 20 },
      region: { type: 'string', enum: ['emea', 'amer', 'apac'] },
    },
    required: ['query'],
  },
} as const;

/** What every call is answered with. */
export const replyText = filler(400);

/** Milliseconds after which a caller gives a call up: what the gateway allows by default. */
export const deadlineMs = 5_000;

/** `ToolInvokeRequest` with all its members. */
export interface InvokeRequest {
  readonly uri: string;
  readonly body: string;
  readonly arguments: Record<string, string>;
  readonly configurationURI: string;
  readonly secretsURI: string;
  readonly headers: Record<string, string>;
}

/** What the `tools/call` of a client of that era becomes: the bare client sends the same. */
export function invokeRequest(era: Era): InvokeRequest {
  const query = at(parseJson(callMessage(era).body), 'params', 'arguments', 'query');
  return {
    uri: bridgedTool.uri,
    body: '',
    arguments: { query: String(query) },
    configurationURI: '',
    secretsURI: '',
    headers: {},
  };
}
