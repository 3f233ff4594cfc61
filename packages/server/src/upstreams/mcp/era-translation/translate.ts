import type { JsonObject } from '@sluice/protocol/json/parse';
import { crossedCapabilities, supportsServerRequests } from '@sluice/protocol/mcp/capabilities';
import { type Era, INVALID_PARAMS, NAME_PARAM } from '@sluice/protocol/mcp/constants';
import type { RequestMessage } from '@sluice/protocol/mcp/message';
import { type Outcome, rpcError } from '../../../http/context.ts';
import type { ResponseWriter } from '../../../mcp/response.ts';
import type { Implementation } from '../../../mcp/server-info.ts';
import type { ClientSession } from '../../../mcp/sessions/sessions.ts';
import type { CallParts, CallPlan } from '../relay/relay.ts';
import { RelayedCall } from '../relay/relayed-call.ts';
import type { ServerRequestSink } from '../relay/server-requests.ts';
import { MultiRoundCall } from './input-rounds.ts';
import { LegacyAnswer, ModernAnswer, modernEnvelope, withoutEnvelope } from './messages.ts';
import { SuspendableCall } from './parkable-call.ts';
import { type Binding, NOT_OURS, type ParkedCalls } from './parked-calls.ts';

export interface CrossedCallsOptions extends CallParts {
  readonly parked: ParkedCalls;
  /** Who we are, told to upstreams for clients that do not say who they are. */
  readonly serverInfo: Implementation;
}

/** Who makes a call whose upstream is of the other era. */
export interface CrossingCaller {
  readonly era: Era;
  readonly namespace: { readonly name: string } | undefined;
  readonly session: ClientSession | undefined;
  readonly user: string | undefined;
  readonly capabilities: JsonObject;
}

/** What a client that has set no level is sent: a modern upstream logs nothing unless it is told from where on. */
const DEFAULT_LEVEL = 'info';

/** Carries out calls whose client and upstream are of different eras (mcp 5). */
export class EraTranslator {
  readonly #options: CrossedCallsOptions;

  constructor(options: CrossedCallsOptions) {
    this.#options = options;
  }

  /**
   * What a retry is answered that goes on with no call of ours; undefined for all else. `anew`: the client was told to call
   * anew, and what belongs to a retry is of no use.
   */
  refusal(era: Era, { params }: RequestMessage, anew: boolean): Outcome | undefined {
    if (era === 'legacy' || anew || params.requestState === undefined) return undefined;
    return rpcError(INVALID_PARAMS, NOT_OURS);
  }

  /** The outcome that carries the call out. `plan` is that of a call within one era, but for its link. */
  call(caller: CrossingCaller, plan: CallPlan): Outcome {
    return caller.era === 'legacy' ? this.#toModern(caller, plan) : this.#toLegacy(caller, plan);
  }

  #toModern({ session, capabilities }: CrossingCaller, plan: CallPlan): Outcome {
    const { sessions, serverInfo } = this.#options;
    const level = (session && sessions.state(session)?.logLevel) ?? DEFAULT_LEVEL;
    const facts = {
      clientInfo: session?.clientInfo ?? { ...serverInfo },
      capabilities: crossedCapabilities(capabilities, session !== undefined && plan.streams),
      logLevel: plan.streams ? level : undefined,
      trace: plan.trace,
    };
    const { method } = plan.message;
    // Only these may be answered that input is needed (2026-07-28, MRTR).
    const inRounds = NAME_PARAM.has(method);
    const crossed = { ...plan, rewriting: new LegacyAnswer(plan.failure, inRounds) };
    if (inRounds) return started((client) => new MultiRoundCall(this.#options, crossed, facts, client));
    const edits = [...plan.edits, ...modernEnvelope(plan.message, facts)];
    return started((client) => new RelayedCall(this.#options, { ...crossed, edits }, client));
  }

  #toLegacy({ namespace, user }: CrossingCaller, plan: CallPlan): Outcome {
    const { message, capabilities } = plan;
    const edits = [...plan.edits, ...withoutEnvelope(message, plan.trace)];
    const rewriting = new ModernAnswer(message.method, capabilities);
    const crossed = { ...plan, edits, rewriting };
    if (!NAME_PARAM.has(message.method) || !supportsServerRequests(capabilities)) {
      return started((client) => new RelayedCall(this.#options, crossed, client));
    }
    const owner = { namespace: namespace?.name ?? '', user };
    return started((client) => parkableCall(this.#options, crossed, owner, client));
  }
}

/** Apart from everything else, so that what is made here keeps nothing of the request that the call itself does not. */
function parkableCall(
  parts: CrossedCallsOptions,
  plan: CallPlan,
  owner: Pick<Binding, 'namespace' | 'user'>,
  client: ResponseWriter,
): RelayedCall {
  const { message, capabilities, headers, streams, json } = plan;
  const { parked } = parts;
  const answer = new ModernAnswer(message.method, capabilities, () => parked.visit(parkable.binding));
  const parkable = new SuspendableCall(
    {
      place: parked,
      attempt: { message, capabilities, headers, streams, json },
      owner,
      continueWith: (attempt) => call.continueWith(attempt, answer.toRetry(attempt.capabilities)),
    },
    client,
  );
  const questions = (sink: ServerRequestSink) => parkable.connect(sink);
  const call = new RelayedCall(parts, { ...plan, questions, rewriting: answer }, parkable);
  return call;
}

function started(make: (client: ResponseWriter) => { start(): void }): Outcome {
  return { kind: 'stream', start: (client) => make(client).start() };
}
