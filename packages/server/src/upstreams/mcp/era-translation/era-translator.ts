import { legacyCapabilities, translatedCapabilities } from '@sluice/protocol/mcp/capabilities';
import { NAME_PARAM } from '@sluice/protocol/mcp/constants';
import type { Implementation } from '@sluice/protocol/mcp/message';
import { withTasksExtension } from '@sluice/protocol/mcp/tasks';
import type { ClientRequests, ServerRequestSource } from '../../client-requests.ts';
import type { ResponseSink } from '../../response-sink.ts';
import type { CallDeps, CallSpec } from '../relay/call-spec.ts';
import { RelayedCall } from '../relay/relayed-call.ts';
import { RequestEdits } from '../relay/request-edits.ts';
import { LegacyResponseRewriter, ModernResponseRewriter } from './messages.ts';
import { MultiRoundCall } from './multi-round-call.ts';

/** Dependencies of translated calls. */
export interface TranslationDeps extends CallDeps {
  /** `clientInfo` towards upstreams for clients that send none. */
  readonly serverInfo: Implementation;
}

/** Log level of a legacy client that has set none: a modern upstream sends no log messages without a level. */
const DEFAULT_LEVEL = 'info';

/** Starts a call whose client and upstream are of different eras. `spec` is that of a call within one era, except for its session. */
export function startTranslated(deps: TranslationDeps, spec: CallSpec, sink: ResponseSink): void {
  if (sink.client.era === 'legacy') startModern(deps, spec, sink);
  else startLegacy(deps, spec, sink);
}

/** Starts the call of a legacy client at a modern upstream. */
function startModern(deps: TranslationDeps, spec: CallSpec, sink: ResponseSink): void {
  const { session, capabilities, accepts } = sink.client;
  const declared = translatedCapabilities(capabilities, session !== undefined && accepts.sse);
  const metadata = {
    clientInfo: session?.clientInfo ?? { ...deps.serverInfo },
    capabilities: spec.task?.isDeclared ? withTasksExtension(declared) : declared,
    logLevel: accepts.sse ? (session?.state.logLevel ?? DEFAULT_LEVEL) : undefined,
  };
  // Only these methods may have a result that requires input (2026-07-28, MRTR).
  const isMultiRound = NAME_PARAM.has(spec.message.method);
  const translated = { ...spec, rewriter: new LegacyResponseRewriter(spec.failure, isMultiRound) };
  if (isMultiRound) return new MultiRoundCall(deps, translated, metadata, sink).start();
  new RelayedCall(deps, { ...translated, edits: spec.edits.toModern(metadata) }, sink).start();
}

/** Starts the call of a modern client at a legacy upstream. */
function startLegacy(deps: TranslationDeps, spec: CallSpec, sink: ResponseSink): void {
  const { message, capabilities } = spec;
  const rewriter = new ModernResponseRewriter(message.method, capabilities);
  const translated = { ...spec, edits: spec.edits.toLegacy(), rewriter };
  if (sink.clientRequests) startSuspendable(deps, translated, sink, sink.clientRequests);
  else new RelayedCall(deps, translated, sink).start();
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
