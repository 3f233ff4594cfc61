import { constants, setPriority } from 'node:os';
import { startRawService } from '../../packages/server/src/upstreams/grpc/fixtures/raw-service.ts';
import { startChatCompletions } from '../../packages/server/testing/chat-completions.ts';
import { type CurrentProcess, serveParent, startProcess } from '../fixtures/own-process.ts';
import type { Era } from '../fixtures/raw-upstream/message.ts';
import { textResultText, toolList, toolText } from '../fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../fixtures/raw-upstream.ts';
import { grpcReplies } from './grpc-replies.ts';
import type { HostilePeers } from './hostile-case.ts';
import { stallCases } from './stall-cases.ts';
import { TEMPLATE_LIST } from './uri-cases.ts';
import { hostileCases } from './variants.ts';

/** Addresses of the hostile peers. */
export interface PeerAddresses {
  /** MCP upstreams that support one era. */
  readonly upstreams: Readonly<Record<Era, string>>;
  /** Base URL of the LLM. */
  readonly llm: string;
  /** Port of the capability service. */
  readonly grpcPort: number;
}

/**
 * Starts the peers in a process of their own with low priority, so that only the service's own work delays others. `seed`:
 * that of the generated cases.
 */
export async function startHostilePeers(seed: number): Promise<CurrentProcess & { readonly addresses: PeerAddresses }> {
  const started = await startProcess(new URL(import.meta.url), [String(seed)]);
  const { upstreams, llm, grpcPort } = Object(started.ready);
  return { ...started, addresses: { upstreams, llm, grpcPort } };
}

/** Tools of both upstreams. */
const TOOLS = toolList(toolText('a'), toolText('b'));

async function serve(seed: number): Promise<void> {
  setPriority(constants.priority.PRIORITY_LOW);
  const [legacy, modern, llm] = await Promise.all([
    startRawUpstream({ eras: ['legacy'], scripts: { 'tools/list': TOOLS, 'resources/templates/list': TEMPLATE_LIST } }),
    startRawUpstream({ eras: ['modern'], scripts: { 'tools/list': TOOLS } }),
    startChatCompletions(),
  ]);
  const peers: HostilePeers = { upstreams: { legacy, modern }, llm, onGrpcCall: (stream) => stream.close() };
  const grpc = await startRawService((stream) => peers.onGrpcCall(stream));
  const cases = [...hostileCases(seed), ...stallCases(seed)];
  const addresses: PeerAddresses = {
    upstreams: { legacy: legacy.url, modern: modern.url },
    llm: llm.url,
    grpcPort: grpc.port,
  };
  serveParent(addresses, {
    /** Sends one case to a target; returns what it answered. */
    send: async (argument) => {
      const { name, mcp, management, inference } = Object(argument);
      const found = cases.find((candidate) => candidate.name === name);
      if (!found) throw new Error(`unknown case: ${name}`);
      for (const { scripts } of [legacy, modern]) scripts['tools/call'] = textResultText('done');
      llm.defaultResult = 'pass';
      peers.onGrpcCall = grpcReplies(1, Buffer.alloc(0));
      return found.send(peers, {
        mcp: String(mcp),
        management: management === undefined ? management : String(management),
        inference: inference === undefined ? inference : String(inference),
      });
    },
  });
}

if (import.meta.main) await serve(Number(process.argv[2]));
