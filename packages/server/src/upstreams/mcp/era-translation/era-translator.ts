import { legacyCapabilities, translatedCapabilities } from '@sluice/protocol/mcp/capabilities';
import { NAME_PARAM } from '@sluice/protocol/mcp/constants';
import type { Implementation } from '@sluice/protocol/mcp/message';
import { withTasksExtension } from '@sluice/protocol/mcp/tasks';
import type { ClientFacts } from '../../client-facts.ts';
import type { ClientRequests, ServerRequestSource } from '../../client-requests.ts';
import type { ResponseSink } from '../../response-sink.ts';
import type { CallContext, CallPlan } from '../relay/call-plan.ts';
import { RelayedCall } from '../relay/relayed-call.ts';
import { RequestEdits } from '../relay/request-edits.ts';
import { LegacyResponseRewriter, ModernResponseRewriter } from './messages.ts';
import { MultiRoundCall } from './multi-round-call.ts';

export interface EraTranslatorOptions extends CallContext {
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

  /** Starts the call. `plan` is that of a call within one era, except for its session. */
  call(client: ClientFacts, plan: CallPlan, sink: ResponseSink): void {
    if (client.era === 'legacy') this.#toModern(client, plan, sink);
    else this.#toLegacy(plan, sink);
  }

  #toModern({ session, capabilities, accepts }: ClientFacts, plan: CallPlan, sink: ResponseSink): void {
    const declared = translatedCapabilities(capabilities, session !== undefined && accepts.sse);
    const metadata = {
      clientInfo: session?.clientInfo ?? { ...this.#options.serverInfo },
      capabilities: plan.task?.isDeclared ? withTasksExtension(declared) : declared,
      logLevel: accepts.sse ? (session?.logLevel ?? DEFAULT_LEVEL) : undefined,
    };
    // Only these methods may have a result that requires input (2026-07-28, MRTR).
    const isMultiRound = NAME_PARAM.has(plan.message.method);
    const translated = { ...plan, rewriter: new LegacyResponseRewriter(plan.failure, isMultiRound) };
    if (isMultiRound) return new MultiRoundCall(this.#options, translated, metadata, sink).start();
    const edits = plan.edits.toModern(metadata);
    new RelayedCall(this.#options, { ...translated, edits }, sink).start();
  }

  #toLegacy(plan: CallPlan, sink: ResponseSink): void {
    const { message, capabilities } = plan;
    const edits = plan.edits.toLegacy();
    const rewriter = new ModernResponseRewriter(message.method, capabilities);
    const translated = { ...plan, edits, rewriter };
    if (sink.clientRequests) startSuspendable(this.#options, translated, sink, sink.clientRequests);
    else new RelayedCall(this.#options, translated, sink).start();
  }
}

/** A function of its own, so that the closures retain no more of the request than the call itself. */
function startSuspendable(
  context: CallContext,
  plan: CallPlan,
  sink: ResponseSink,
  clientRequests: ClientRequests,
): void {
  const { message, capabilities } = plan;
  const rewriter = new ModernResponseRewriter(message.method, capabilities, () => clientRequests.createRestartState());
  const serverRequests = (source: ServerRequestSource) => clientRequests.connect(source);
  const call = new RelayedCall(context, { ...plan, serverRequests, rewriter }, sink);
  clientRequests.continueWith({
    onSuspended: (outline) => {
      const edits = new RequestEdits(outline, call.plan.edits.headers);
      call.plan = { ...call.plan, message: outline, edits };
    },
    onRetry: (retry, { copiedHeaders: headers = [], capabilities: declared }) => {
      const renewed = rewriter.forRetry(legacyCapabilities(declared));
      call.plan = { ...call.plan, message: retry, edits: new RequestEdits(retry, headers), rewriter: renewed };
    },
  });
  call.start();
}
