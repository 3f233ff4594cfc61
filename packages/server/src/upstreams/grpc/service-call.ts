import type { Permit } from '../../access/access.ts';
import type { Registry } from '../../registry/registry.ts';
import type { UpstreamRequestInfo } from '../../telemetry/call-observer.ts';
import type { TargetLogger } from '../../telemetry/log.ts';
import type { RequestSummary, ToolTarget } from '../../telemetry/tool-calls/event.ts';
import type { ClientFacts } from '../client-facts.ts';
import type { CallDescription, RejectedCall, UpstreamConnection } from '../connection.ts';
import { CallError, type Operation, type RunningOperations } from '../operation.ts';
import type { ResponseSink } from '../response-sink.ts';
import { toolFailure } from './content-result.ts';
import type { CallSettings } from './grpc-client.ts';
import type { Grpc } from './library.ts';
import { serviceRequestId } from './tool-operation.ts';

/** What all calls of capability services need. */
export interface GrpcParts {
  readonly registry: Pick<Registry, 'current'>;
  readonly loadGrpc: () => Promise<Grpc>;
  readonly settings: CallSettings;
  /** Names of headers that no service gets for the request that it makes. */
  readonly droppedHeaders?: ReadonlySet<string> | undefined;
  readonly log: TargetLogger;
}

/** A call that can be sent. */
export interface ServiceCall extends Operation {
  readonly request: UpstreamRequestInfo;
  readonly summary?: RequestSummary;
}

/** Executes the requests about an entry. */
export interface ServiceExecutor {
  readonly target: ToolTarget;
  /** Throws {@link CallError} if the request cannot be built. The service gets `requestId` as `x-service-request-id`. */
  call(permit: Permit, client: ClientFacts, requestId: string): ServiceCall;
}

/** Executes requests about an entry by a capability service. */
export class ServiceConnection implements UpstreamConnection {
  readonly createsTasks = false;
  readonly #executor: ServiceExecutor;
  readonly #operations: Pick<RunningOperations, 'start'>;
  /** The call that was described last, and its permit. */
  #described: { readonly permit: Permit; readonly call: ServiceCall } | undefined = undefined;

  constructor(executor: ServiceExecutor, operations: Pick<RunningOperations, 'start'>) {
    this.#executor = executor;
    this.#operations = operations;
  }

  get address(): string {
    return this.#executor.target.service?.address ?? '';
  }

  describe(permit: Permit, client: ClientFacts): CallDescription | RejectedCall {
    const requestId = serviceRequestId(client.correlation.requestId);
    const { target } = this.#executor;
    this.#described = undefined;
    const { service } = target;
    const identified = service?.id === undefined ? target : { ...target, service: { ...service, requestId } };
    try {
      const call = this.#executor.call(permit, client, requestId);
      this.#described = { permit, call };
      return { kind: 'described', target: identified, request: call.request, summary: call.summary };
    } catch (error) {
      if (!(error instanceof CallError)) throw error;
      // Only requests of tools are built of arguments.
      const outcome = { ...toolFailure(client.era, error), report: error.report };
      return { kind: 'rejected', target: identified, outcome };
    }
  }

  request(permit: Permit, sink: ResponseSink): void {
    if (this.#described?.permit !== permit) {
      const call = this.describe(permit, sink.client);
      if (call.kind === 'rejected') return sink.complete(call.outcome);
    }
    if (this.#described) this.#operations.start(permit, sink, this.#described.call);
  }
}
