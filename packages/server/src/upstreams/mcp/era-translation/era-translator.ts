import { legacyCapabilities, translatedCapabilities } from '@sluice/protocol/mcp/capabilities';
import { NAME_PARAM } from '@sluice/protocol/mcp/constants';
import type { Implementation } from '@sluice/protocol/mcp/message';
import { withTasksExtension } from '@sluice/protocol/mcp/tasks';
import type { ClientFacts } from '../../client-facts.ts';
import type { ClientRequests, ServerRequestSource } from '../../client-requests.ts';
import type { ResponseSink } from '../../response-sink.ts';
import type { CallDeps, CallSpec } from '../relay/call-spec.ts';
import { RelayedCall } from '../relay/relayed-call.ts';
import { RequestEdits } from '../relay/request-edits.ts';
import { LegacyResponseRewriter, ModernResponseRewriter } from './messages.ts';
import { MultiRoundCall } from './multi-round-call.ts';

export interface EraTranslatorOptions extends CallDeps {
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

  /** Starts the call. `spec` is that of a call within one era, except for its session. */
  call(client: ClientFacts, spec: CallSpec, sink: ResponseSink): void {
    if (client.era === 'legacy') this.#toModern(client, spec, sink);
    else this.#toLegacy(spec, sink);
  }

  #toModern({ session, capabilities, accepts }: ClientFacts, spec: CallSpec, sink: ResponseSink): void {
    const declared = translatedCapabilities(capabilities, session !== undefined && accepts.sse);
    const metadata = {
      clientInfo: session?.clientInfo ?? { ...this.#options.serverInfo },
      capabilities: spec.task?.isDeclared ? withTasksExtension(declared) : declared,
      logLevel: accepts.sse ? (session?.logLevel ?? DEFAULT_LEVEL) : undefined,
    };
    // Only these methods may have a result that requires input (2026-07-28, MRTR).
    const isMultiRound = NAME_PARAM.has(spec.message.method);
    const translated = { ...spec, rewriter: new LegacyResponseRewriter(spec.failure, isMultiRound) };
    if (isMultiRound) return new MultiRoundCall(this.#options, translated, metadata, sink).start();
    const edits = spec.edits.toModern(metadata);
    new RelayedCall(this.#options, { ...translated, edits }, sink).start();
  }

  #toLegacy(spec: CallSpec, sink: ResponseSink): void {
    const { message, capabilities } = spec;
    const edits = spec.edits.toLegacy();
    const rewriter = new ModernResponseRewriter(message.method, capabilities);
    const translated = { ...spec, edits, rewriter };
    if (sink.clientRequests) startSuspendable(this.#options, translated, sink, sink.clientRequests);
    else new RelayedCall(this.#options, translated, sink).start();
  }
}

/** A function of its own, so that the closures retain no more of the request than the call itself. */
function startSuspendable(context: CallDeps, spec: CallSpec, sink: ResponseSink, clientRequests: ClientRequests): void {
  const { message, capabilities } = spec;
  const rewriter = new ModernResponseRewriter(message.method, capabilities, () => clientRequests.createRestartState());
  const serverRequests = (source: ServerRequestSource) => clientRequests.connect(source);
  const call = new RelayedCall(context, { ...spec, serverRequests, rewriter }, sink);
  clientRequests.continueWith({
    onSuspended: (outline) => {
      const edits = new RequestEdits(outline, call.spec.edits.headers);
      call.spec = { ...call.spec, message: outline, edits };
    },
    onRetry: (retry, { copiedHeaders: headers = [], capabilities: declared }) => {
      const renewed = rewriter.forRetry(legacyCapabilities(declared));
      call.spec = { ...call.spec, message: retry, edits: new RequestEdits(retry, headers), rewriter: renewed };
    },
  });
  call.start();
}
