import { type Client, status } from '@grpc/grpc-js';
import { type ProvisionInput, type ProvisionResult, serviceAddress } from '@sluice/contract';
import type { ServiceEntry } from '../../registry/entries.ts';
import { named } from './call.ts';
import type { Channels, Protocols } from './channel.ts';
import { type CallSettings, callUnary, statusName, statusOf } from './unary.ts';

/** What {@link Provisioning} works with. */
export interface ProvisioningOptions {
  readonly channels: Pick<Channels, 'to'>;
  readonly protocols: Protocols;
  readonly settings: CallSettings;
}

/**
 * A service that did not provision. The message is answered: it names service and status, and carries nothing of what was
 * sent.
 */
export class ProvisioningError extends Error {
  override readonly name = 'ProvisioningError';
}

/** Has capability services keep configuration and secrets for their tools (specification, "Capability-service protocols"). */
export class Provisioning {
  readonly #options: ProvisioningOptions;

  constructor(options: ProvisioningOptions) {
    this.#options = options;
  }

  /**
   * Hands both to the service under the name (decisions 4.10). Resolves with where it keeps them; rejects with
   * ProvisioningError when the call fails.
   */
  async provision(
    entry: ServiceEntry,
    { name, configuration, secrets, uri }: ProvisionInput,
    requestId: string,
  ): Promise<ProvisionResult> {
    const { channels, protocols, settings } = this.#options;
    const client: Client = channels.to(serviceAddress(entry));
    const as = name.toWellFormed();
    const request = {
      uri: uri.toWellFormed(),
      configuration: { type: 'BUILTIN', name: as, payload: configuration.toWellFormed() },
      secret: { type: 'BUILTIN', name: as, payload: secrets.toWellFormed() },
    } as const;
    try {
      const reply = await callUnary(client, protocols.provisioner.Provision, request, { requestId }, settings);
      const { configurationUri, secretUri, properties } = reply;
      return { configurationUri, secretUri, properties };
    } catch (error) {
      // Neither the service's own words nor a cause go along: services may repeat in them what they could not read.
      throw new ProvisioningError(`${named(entry)} ${whatHappened(error)}`);
    }
  }
}

function whatHappened(error: unknown): string {
  const code = statusOf(error);
  if (code === undefined) return 'could not be asked to provision';
  if (code === status.UNAVAILABLE) return 'is not available';
  if (code === status.DEADLINE_EXCEEDED) return 'did not answer in time; it may have provisioned all the same';
  if (code === status.UNIMPLEMENTED) return 'does not provision: it knows no tool.Provisioner/Provision';
  return `did not provision: status ${statusName(code)}; its own log may say more`;
}
