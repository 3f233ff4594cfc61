import type { Registry } from '../../registry/registry.ts';
import type { GrpcChannels, Protocols } from './channels.ts';
import type { callStream, callUnary } from './grpc-client.ts';

/** What requests to capability services need of the gRPC library. */
export interface Grpc {
  readonly channels: Pick<GrpcChannels, 'get'>;
  readonly protocols: Protocols;
  readonly callUnary: typeof callUnary;
  readonly callStream: typeof callStream;
}

/**
 * Loads the gRPC library with the first request to a capability service: it takes 7 MB and 50 ms, and many registries have no
 * such service.
 */
export class GrpcLibrary {
  readonly #registry: Pick<Registry, 'current' | 'committed'>;
  #loaded: Promise<Grpc & { readonly channels: GrpcChannels }> | undefined = undefined;

  constructor(registry: Pick<Registry, 'current' | 'committed'>) {
    this.#registry = registry;
  }

  /** Resolves with the library, which every call gets from here. */
  load = (): Promise<Grpc> => (this.#loaded ??= this.#load());

  /** Closes all channels for good; calls in progress finish. */
  close(): void {
    void this.#loaded?.then(({ channels }) => channels.close());
  }

  async #load() {
    // Each import takes up to 30 ms without a pause: in a row they would delay other requests for longer.
    await import('@grpc/grpc-js');
    await import('@grpc/proto-loader');
    const { callStream, callUnary } = await import('./grpc-client.ts');
    const { disableGrpcLogging, GrpcChannels, loadProtocols } = await import('./channels.ts');
    disableGrpcLogging();
    return { channels: new GrpcChannels(this.#registry), protocols: loadProtocols(), callStream, callUnary };
  }
}
