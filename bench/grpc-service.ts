// Process with a capability service with one tool:
//   node bench/grpc-service.ts
// Accepts only the calls that the gateway makes for the clients of the benchmark, so that all targets make the same calls.
// Prints its port as one JSON line, and one for each rejected call.
import { isDeepStrictEqual } from 'node:util';
import { Server, ServerCredentials, type ServerUnaryCall, type sendUnaryData, status } from '@grpc/grpc-js';
import { loadProtocols } from '../packages/server/src/upstreams/grpc/channels.ts';
import type { ToolInvokeReply } from '../packages/server/src/upstreams/grpc/generated/tool/ToolInvokeReply.ts';
import type { ToolInvokeRequest__Output } from '../packages/server/src/upstreams/grpc/generated/tool/ToolInvokeRequest.ts';
import { deadlineMs, invokeRequest, replyText } from './messages.ts';

const expected = [invokeRequest('legacy'), invokeRequest('modern')];
const reply = { isError: false, content: [replyText] };

type Call = ServerUnaryCall<ToolInvokeRequest__Output, ToolInvokeReply>;

/** Returns the reason to reject a call; undefined if it is valid. */
function findMismatch(call: Call): string | undefined {
  const ids = call.metadata.get('x-service-request-id');
  if (ids.length !== 1 || String(ids[0]).length !== 36) return `request id ${JSON.stringify(ids)}`;
  if (!(Number(call.getDeadline()) <= Date.now() + deadlineMs + 100)) return 'deadline too late or missing';
  const { request } = call;
  // Proto-loader creates instances of its own classes.
  const plain = { ...request, arguments: { ...request.arguments }, headers: { ...request.headers } };
  return expected.some((one) => isDeepStrictEqual(plain, one)) ? undefined : 'different request';
}

const server = new Server();
server.addService(loadProtocols().toolInvoker, {
  InvokeTool(call: Call, callback: sendUnaryData<ToolInvokeReply>) {
    const found = findMismatch(call);
    if (found === undefined) return callback(null, reply);
    const details = `unexpected call: ${found}`;
    console.log(JSON.stringify({ refused: details }));
    callback({ code: status.FAILED_PRECONDITION, details });
  },
});
server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, port) => {
  if (error) throw error;
  console.log(JSON.stringify({ port }));
});
process.once('SIGTERM', () => process.exit(0));
