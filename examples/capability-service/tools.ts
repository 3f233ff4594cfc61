import { type handleUnaryCall, status } from '@grpc/grpc-js';
import type { ToolInvokeReply, ToolInvokeRequest } from './messages.ts';

/** What agents see of a tool, and where its calls go. */
export interface ToolDefinition {
  readonly name: string;
  readonly description: string;
  readonly uri: string;
  /** JSON Schema of the arguments. */
  readonly input_schema: object;
}

/** A tool that is carried out here. */
export interface Tool extends ToolDefinition {
  /**
   * Resolves with the texts of the answer. What it rejects with, the agent reads as an error. `left` is aborted when
   * nobody waits for the answer any more.
   */
  run(request: ToolInvokeRequest, left: AbortSignal): Promise<readonly string[]>;
}

/** Carries out the tool whose uri is asked for. */
export function invokeTool(tools: readonly Tool[]): handleUnaryCall<ToolInvokeRequest, ToolInvokeReply> {
  const known = new Map(tools.map((tool) => [tool.uri, tool]));
  return (call, callback) => {
    const tool = known.get(call.request.uri);
    if (!tool) return callback({ code: status.NOT_FOUND, details: `this service has no tool ${call.request.uri}` });
    const left = new AbortController();
    call.on('cancelled', () => left.abort());
    tool.run(call.request, left.signal).then(
      (content) => callback(null, { isError: false, content }),
      (error: unknown) => callback(null, { isError: true, content: [messageOf(error)] }),
    );
  };
}

/** What an agent can make something of: the message, never the stack. */
function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
