// A capability service that carries out one tool, run as a process of its own:
//   node bench/grpc-service.ts
// It takes exactly the calls that the gateway makes for the bench's clients and refuses all others, so that whoever is
// measured makes the same ones. Prints its port as one JSON line, and another one for each call that it refuses.
import { isDeepStrictEqual } from 'node:util';
import { Server, ServerCredentials, type ServerUnaryCall, type sendUnaryData, status } from '@grpc/grpc-js';
import { loadProtocols } from '../packages/server/src/upstreams/grpc/channel.ts';
import type { ToolInvokeReply } from '../packages/server/src/upstreams/grpc/generated/tool/ToolInvokeReply.ts';
import type { ToolInvokeRequest__Output } from '../packages/server/src/upstreams/grpc/generated/tool/ToolInvokeRequest.ts';
import { deadlineMs, invokeRequest, replyText } from './messages.ts';

const expected = [invokeRequest('legacy'), invokeRequest('modern')];
const reply = { isError: false, content: [replyText] };

type Call = ServerUnaryCall<ToolInvokeRequest__Output, ToolInvokeReply>;

/** What of a call is not as it should be; undefined when all is. */
function wrong(call: Call): string | undefined {
  const ids = call.metadata.get('x-service-request-id');
  if (ids.length !== 1 || String(ids[0]).length !== 36) return `its request id is ${JSON.stringify(ids)}`;
  if (!(Number(call.getDeadline()) <= Date.now() + deadlineMs + 100)) return 'its deadline is too far or missing';
  const { request } = call;
  // Proto-loader makes objects of classes of its own.
  const plain = { ...request, arguments: { ...request.arguments }, headers: { ...request.headers } };
  return expected.some((one) => isDeepStrictEqual(plain, one)) ? undefined : 'its request is another one';
}

const server = new Server();
server.addService(loadProtocols().toolInvoker, {
  InvokeTool(call: Call, callback: sendUnaryData<ToolInvokeReply>) {
    const found = wrong(call);
    if (found === undefined) return callback(null, reply);
    const details = `not the call of the bench: ${found}`;
    console.log(JSON.stringify({ refused: details }));
    callback({ code: status.FAILED_PRECONDITION, details });
  },
});
server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, port) => {
  if (error) throw error;
  console.log(JSON.stringify({ port }));
});
process.once('SIGTERM', () => process.exit(0));
