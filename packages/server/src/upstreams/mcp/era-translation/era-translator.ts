import { legacyCapabilities, supportsServerRequests, translatedCapabilities } from '@sluice/protocol/mcp/capabilities';
import { type Era, INVALID_PARAMS, NAME_PARAM } from '@sluice/protocol/mcp/constants';
import type { Implementation, RequestMessage } from '@sluice/protocol/mcp/message';
import { withTasksExtension } from '@sluice/protocol/mcp/tasks';
import { rpcError } from '../../../http/outcome.ts';
import type { CallObserver } from '../../../telemetry/call-observer.ts';
import type { ClientFacts } from '../../client-facts.ts';
import type { RequestOutcome } from '../../deferred-outcome.ts';
import { ObservedSink } from '../../observed-sink.ts';
import type { ResponseSink } from '../../response-sink.ts';
import type { CallContext, CallPlan } from '../relay/call-plan.ts';
import { RelayedCall } from '../relay/relayed-call.ts';
import type { ServerRequestSource } from '../relay/server-requests.ts';
import { addModernMetadata, LegacyResponseRewriter, ModernResponseRewriter, removeModernMetadata } from './messages.ts';
import { MultiRoundCall } from './multi-round-call.ts';
import { FOREIGN_STATE } from './request-state.ts';
import { SuspendableCall, type SuspendedTarget } from './suspendable-call.ts';
import type { SuspendedCalls } from './suspended-calls.ts';

export interface EraTranslatorOptions extends CallContext {
  readonly suspendedCalls: SuspendedCalls;
  /** `clientInfo` towards upstreams for clients that send none. */
  readonly serverInfo: Implementation;
}

/** Log level of a legacy client that has set none: a modern upstream sends no log messages without a level. */
const DEFAULT_LEVEL = 'info';

/** Executes calls whose client and upstream are of different eras. */
export class EraTranslator {
  readonly #options: EraTranslatorOptions;

  constructor(options: EraTranslatorOptions) {
    this.#options = options;
  }

  /**
   * Returns the rejection of a retry that resumes none of our calls. `continuesTask`: it continues a task, whose state the
   * upstream does not get.
   */
  rejection(era: Era, { params }: RequestMessage, continuesTask: boolean): RequestOutcome | undefined {
    if (era === 'legacy' || continuesTask || params.requestState === undefined) return undefined;
    return rpcError(INVALID_PARAMS, FOREIGN_STATE);
  }

  /** Returns the outcome that starts the call. `plan` is that of a call within one era, except for its session. */
  call(client: ClientFacts, plan: CallPlan, observer: CallObserver): RequestOutcome {
    return client.era === 'legacy' ? this.#toModern(client, plan, observer) : this.#toLegacy(plan, observer);
  }

  #toModern({ session, capabilities, accepts }: ClientFacts, plan: CallPlan, observer: CallObserver): RequestOutcome {
    const declared = translatedCapabilities(capabilities, session !== undefined && accepts.sse);
    const metadata = {
      clientInfo: session?.clientInfo ?? { ...this.#options.serverInfo },
      capabilities: plan.declaresTasks ? withTasksExtension(declared) : declared,
      logLevel: accepts.sse ? (session?.logLevel ?? DEFAULT_LEVEL) : undefined,
      trace: plan.trace,
    };
    // Only these methods may have a result that requires input (2026-07-28, MRTR).
    const isMultiRound = NAME_PARAM.has(plan.message.method);
    const translated = { ...plan, rewriter: new LegacyResponseRewriter(plan.failure, isMultiRound) };
    const observed = (sink: ResponseSink) => new ObservedSink(sink, observer);
    if (isMultiRound) {
      return deferredOutcome((sink) => new MultiRoundCall(this.#options, translated, metadata, observed(sink)));
    }
    const edits = [...plan.edits, ...addModernMetadata(plan.message, metadata)];
    return deferredOutcome((sink) => new RelayedCall(this.#options, { ...translated, edits }, observed(sink)));
  }

  #toLegacy(plan: CallPlan, observer: CallObserver): RequestOutcome {
    const { message, capabilities } = plan;
    const edits = [...plan.edits, ...removeModernMetadata(message, plan.trace)];
    const rewriter = new ModernResponseRewriter(message.method, capabilities);
    const translated = { ...plan, edits, rewriter };
    if (!NAME_PARAM.has(message.method) || !supportsServerRequests(capabilities)) {
      return deferredOutcome((sink) => new RelayedCall(this.#options, translated, new ObservedSink(sink, observer)));
    }
    return deferredOutcome((sink) => createSuspendableCall(this.#options, translated, sink, observer));
  }
}

/** A function of its own, so that the closures retain no more of the request than the call itself. */
function createSuspendableCall(
  options: EraTranslatorOptions,
  plan: CallPlan,
  sink: ResponseSink,
  observer: CallObserver,
): RelayedCall {
  const { message, capabilities } = plan;
  const { suspendedCalls } = options;
  const rewriter = new ModernResponseRewriter(message.method, capabilities, () =>
    suspendedCalls.createRestartState(suspendable.binding),
  );
  const suspendable = new SuspendableCall(
    {
      store: suspendedCalls,
      message,
      target: targetOf(plan),
      onSuspended: (outline) => call.continueWith({ message: outline }),
      onRetry: (retry, { copiedHeaders: headers = [], capabilities: declared }) =>
        call.continueWith({ message: retry, headers, rewriter: rewriter.forRetry(legacyCapabilities(declared)) }),
    },
    sink,
  );
  const serverRequests = (source: ServerRequestSource) => suspendable.connect(source);
  const call = new RelayedCall(options, { ...plan, serverRequests, rewriter }, new ObservedSink(suspendable, observer));
  return call;
}

function targetOf({ entry, forward, message }: CallPlan): SuspendedTarget {
  const { uri } = message.params;
  return { entry, forward, uri: message.method === 'resources/read' && typeof uri === 'string' ? uri : undefined };
}

function deferredOutcome(create: (sink: ResponseSink) => { start(): void }): RequestOutcome {
  return { kind: 'deferred', start: (sink) => create(sink).start() };
}
