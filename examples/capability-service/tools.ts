import { type handleUnaryCall, status } from '@grpc/grpc-js';
import type { ToolInvokeReply, ToolInvokeRequest } from './messages.ts';

/** Registered members of a tool. */
export interface ToolDefinition {
  readonly name: string;
  readonly description: string;
  readonly uri: string;
  /** JSON Schema of the arguments. */
  readonly input_schema: object;
}

/** Tool with its implementation. */
export interface Tool extends ToolDefinition {
  /** Returns the text contents of the result. An exception becomes an error result. `signal` is aborted on cancellation. */
  run(request: ToolInvokeRequest, signal: AbortSignal): Promise<readonly string[]>;
}

/** Returns the handler of `InvokeTool`, which runs the tool with the requested URI. */
export function invokeTool(tools: readonly Tool[]): handleUnaryCall<ToolInvokeRequest, ToolInvokeReply> {
  const known = new Map(tools.map((tool) => [tool.uri, tool]));
  return (call, callback) => {
    const tool = known.get(call.request.uri);
    if (!tool) return callback({ code: status.NOT_FOUND, details: `unknown tool ${call.request.uri}` });
    const controller = new AbortController();
    call.on('cancelled', () => controller.abort());
    tool.run(call.request, controller.signal).then(
      (content) => callback(null, { isError: false, content }),
      (error: unknown) => callback(null, { isError: true, content: [errorMessage(error)] }),
    );
  };
}

/** Returns the message of an error, without the stack. */
function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
