import { serviceAddress } from '@sluice/contract';
import type { RequestMessage } from '@sluice/protocol/mcp/message';
import { visibleEntries } from '../access/access.ts';
import { type Entry, FORWARD_TYPE } from '../registry/entries.ts';
import type { Snapshot } from '../registry/snapshot.ts';
import { boundedName, boundedSubject } from '../telemetry/redaction.ts';
import { codeToolName, type ToolTarget, toolCallIdentity } from '../telemetry/tool-calls/event.ts';
import type { ToolCallSink } from '../telemetry/tool-calls/events.ts';
import { isCodeUri, parseCodeUri } from '../upstreams/grpc/code-request.ts';
import { findCodeService, findToolService } from '../upstreams/grpc/services.ts';
import type { EvaluationInput } from './context.ts';

/** Rejection of a request by an evaluator, or because there was no room for the evaluation. */
export interface Rejection {
  readonly evaluator: string;
  readonly reason: string;
  readonly isBusy: boolean;
}

/**
 * Records a rejection for the access log and, of a `tools/call`, as a FAILED event. The event names the tool as requested if the
 * namespace does not have it: another one does, and an action may copy it.
 */
export function recordRejection(
  { evaluator, reason, isBusy }: Rejection,
  input: EvaluationInput,
  message: RequestMessage,
  registry: Snapshot,
  toolCalls: ToolCallSink,
): void {
  const { facts, namespace } = input;
  facts.rejection = { evaluator, reason };
  facts.outcome = isBusy ? 'failed' : 'blocked';
  const { name } = message.params;
  if (message.method !== 'tools/call' || typeof name !== 'string') return;
  const tool = namespace && visibleEntries(namespace, 'tool').served(name);
  if (tool) facts.subject = boundedSubject({ kind: 'tool', name: tool.name });
  const called = tool ?? { name: boundedName(name), members: { toolType: '' } };
  const target: ToolTarget = tool ? targetOf(tool, registry) : { transport: 'mcp' };
  const category = isBusy ? 'SERVICE_UNAVAILABLE' : 'POLICY_BLOCKED';
  const { correlation, principal } = input;
  const caller = { namespace: namespace?.name, correlation, principal, facts };
  toolCalls.of(toolCallIdentity(caller, called, target), facts).rejected(category, evaluator, reason);
}

/** The service or upstream that would have executed the call. */
function targetOf({ discovered, members }: Entry, { services, forwards }: Snapshot): ToolTarget {
  const uri = typeof members.uri === 'string' ? members.uri : '';
  if (discovered)
    return { transport: 'mcp', service: { address: originOf(forwards.get(discovered.forward)?.address ?? '') } };
  if (isCodeUri(uri)) {
    const code = parseCodeUri(uri);
    const service = code && findCodeService(services, code.engine, code.language);
    return {
      transport: 'code',
      toolName: code && codeToolName(code.engine, code.language),
      service: service && { id: service.name, address: serviceAddress(service) },
    };
  }
  const toolType = String(members.toolType);
  const service = toolType === FORWARD_TYPE ? undefined : findToolService(services, toolType);
  if (service) return { transport: 'grpc', service: { id: service.name, address: serviceAddress(service) } };
  const isMcp = toolType === FORWARD_TYPE || /^https?:/.test(uri);
  return isMcp ? { transport: 'mcp', service: { address: originOf(uri) } } : { transport: 'grpc' };
}

function originOf(address: string): string {
  const origin = URL.parse(address)?.origin ?? 'null';
  return origin === 'null' ? '' : origin;
}
