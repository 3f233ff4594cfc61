import type { ServerHttp2Stream } from 'node:http2';
import type { ChatCompletions } from '../../packages/server/testing/chat-completions.ts';
import type { Era } from '../fixtures/raw-upstream/message.ts';
import type { RawUpstream } from '../fixtures/raw-upstream.ts';

/** Addresses of the process under test, and the namespaces that its upstreams are registered in. */
export interface HostileTarget {
  /** Base URL of the MCP listener. */
  readonly mcp: string;
  /** Base URL of the management listener; undefined for a process that has none. */
  readonly management: string | undefined;
  /** Base URL of the inference listener, likewise. */
  readonly inference?: string | undefined;
}

/** The peers of a gateway, in one process with clients: each sends what a case needs. */
export interface HostilePeers {
  /** MCP upstreams that support one era. */
  readonly upstreams: Readonly<Record<Era, RawUpstream>>;
  readonly llm: ChatCompletions;
  /** Response to calls of the capability service. */
  onGrpcCall: (stream: ServerHttp2Stream) => void;
}

/** Messages that try to stop a service. */
export interface HostileCase {
  readonly name: string;
  /** The table of docs/campaign.md that it belongs to. */
  readonly group: string;
  /** Whether the same load can be sent to a process that only reads. */
  readonly isComparable: boolean;
  /** Sends them and returns a summary of the response; throws if there is none. */
  readonly send: (peers: HostilePeers, target: HostileTarget) => Promise<string>;
}
