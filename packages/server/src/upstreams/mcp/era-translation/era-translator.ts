import { supportsServerRequests, translatedCapabilities } from '@sluice/protocol/mcp/capabilities';
import { type Era, INVALID_PARAMS, NAME_PARAM } from '@sluice/protocol/mcp/constants';
import type { Implementation, RequestMessage } from '@sluice/protocol/mcp/message';
import { withTasksExtension } from '@sluice/protocol/mcp/tasks';
import { rpcError } from '../../../http/outcome.ts';
import { type QuotaOwner, quotaOwner } from '../../../http/shares.ts';
import type { Caller, CallOutcome, ClientResponse } from '../../downstream.ts';
import type { CallContext, CallPlan } from '../relay/call-plan.ts';
import { RelayedCall } from '../relay/relayed-call.ts';
import type { ServerRequestSource } from '../relay/server-requests.ts';
import { addModernMetadata, LegacyResponseRewriter, ModernResponseRewriter, removeModernMetadata } from './messages.ts';
import { MultiRoundCall } from './multi-round-call.ts';
import { type CallBinding, FOREIGN_STATE } from './request-state.ts';
import { SuspendableCall, type SuspendedTarget } from './suspendable-call.ts';
import type { SuspendedCalls } from './suspended-calls.ts';

export interface EraTranslatorOptions extends CallContext {
  readonly suspendedCalls: SuspendedCalls;
  /** `clientInfo` towards upstreams for clients that send none. */
  readonly serverInfo: Implementation;
}

/** Log level of a legacy client that has set none: a modern upstream sends no log messages without a level. */
const DEFAULT_LEVEL = 'info';

/** Executes calls whose client and upstream are of different eras (mcp 5). */
export class EraTranslator {
  readonly #options: EraTranslatorOptions;

  constructor(options: EraTranslatorOptions) {
    this.#options = options;
  }

  /**
   * Returns the rejection of a retry that resumes none of our calls. `continuesTask`: it continues a task, whose state the
   * upstream does not get.
   */
  rejection(era: Era, { params }: RequestMessage, continuesTask: boolean): CallOutcome | undefined {
    if (era === 'legacy' || continuesTask || params.requestState === undefined) return undefined;
    return rpcError(INVALID_PARAMS, FOREIGN_STATE);
  }

  /** Returns the outcome that starts the call. `plan` is that of a call within one era, except for its session. */
  call(caller: Caller, plan: CallPlan): CallOutcome {
    return caller.era === 'legacy' ? this.#toModern(caller, plan) : this.#toLegacy(caller, plan);
  }

  #toModern({ session, capabilities }: Caller, plan: CallPlan): CallOutcome {
    const declared = translatedCapabilities(capabilities, session !== undefined && plan.streams);
    const metadata = {
      clientInfo: session?.clientInfo ?? { ...this.#options.serverInfo },
      capabilities: plan.declaresTasks ? withTasksExtension(declared) : declared,
      logLevel: plan.streams ? (session?.logLevel ?? DEFAULT_LEVEL) : undefined,
      trace: plan.trace,
    };
    // Only these methods may have a result that requires input (2026-07-28, MRTR).
    const isMultiRound = NAME_PARAM.has(plan.message.method);
    const translated = { ...plan, rewriter: new LegacyResponseRewriter(plan.failure, isMultiRound) };
    if (isMultiRound)
      return deferredOutcome((client) => new MultiRoundCall(this.#options, translated, metadata, client));
    const edits = [...plan.edits, ...addModernMetadata(plan.message, metadata)];
    return deferredOutcome((client) => new RelayedCall(this.#options, { ...translated, edits }, client));
  }

  #toLegacy({ namespace, principal, head }: Caller, plan: CallPlan): CallOutcome {
    const { message, capabilities } = plan;
    const edits = [...plan.edits, ...removeModernMetadata(message, plan.trace)];
    const rewriter = new ModernResponseRewriter(message.method, capabilities);
    const translated = { ...plan, edits, rewriter };
    if (!NAME_PARAM.has(message.method) || !supportsServerRequests(capabilities)) {
      return deferredOutcome((client) => new RelayedCall(this.#options, translated, client));
    }
    const owner = { namespace: namespace?.name ?? '', principal };
    const holder = quotaOwner(owner.namespace, principal, head?.address);
    return deferredOutcome((client) => createSuspendableCall(this.#options, translated, owner, holder, client));
  }
}

/** A function of its own, so that the closures retain no more of the request than the call itself. */
function createSuspendableCall(
  options: EraTranslatorOptions,
  plan: CallPlan,
  owner: Pick<CallBinding, 'namespace' | 'principal'>,
  holder: QuotaOwner,
  client: ClientResponse,
): RelayedCall {
  const { message, capabilities, headers, streams, json } = plan;
  const { suspendedCalls } = options;
  const rewriter = new ModernResponseRewriter(message.method, capabilities, () =>
    suspendedCalls.createRestartState(suspendable.binding),
  );
  const suspendable = new SuspendableCall(
    {
      store: suspendedCalls,
      request: { message, capabilities, headers, streams, json },
      owner,
      holder,
      target: targetOf(plan),
      continueWith: (request) => call.continueWith(request, rewriter.forRetry(request.capabilities)),
    },
    client,
  );
  const serverRequests = (source: ServerRequestSource) => suspendable.connect(source);
  const call = new RelayedCall(options, { ...plan, serverRequests, rewriter }, suspendable);
  return call;
}

function targetOf({ entry, forward, message }: CallPlan): SuspendedTarget {
  const { uri } = message.params;
  return { entry, forward, uri: message.method === 'resources/read' && typeof uri === 'string' ? uri : undefined };
}

function deferredOutcome(create: (client: ClientResponse) => { start(): void }): CallOutcome {
  return { kind: 'deferred', start: (client) => create(client).start() };
}
