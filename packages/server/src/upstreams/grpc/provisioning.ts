import { type ProvisionInput, type ProvisionResult, serviceAddress } from '@sluice/contract';
import type { ServiceEntry } from '../../registry/entries.ts';
import type { GrpcParts } from './service-call.ts';
import { describeService } from './service-error.ts';
import { status, statusCode, statusName } from './status.ts';

/**
 * Failed provisioning. The message goes to the client: it has service and status, and nothing of the configuration or
 * secrets.
 */
export class ProvisioningError extends Error {
  override readonly name = 'ProvisioningError';
}

/**
 * Stores configuration and secrets of a tool in a capability service, under the name of the input. Resolves with their uris;
 * rejects with {@link ProvisioningError} if the call fails.
 */
export type Provision = (entry: ServiceEntry, input: ProvisionInput, requestId: string) => Promise<ProvisionResult>;

/** Returns the function that provisions with these settings. */
export function provisioner({ loadGrpc, settings }: Pick<GrpcParts, 'loadGrpc' | 'settings'>): Provision {
  return async (entry, { name, configuration, secrets, uri }, requestId) => {
    const storedName = name.toWellFormed();
    const request = {
      uri: uri.toWellFormed(),
      configuration: { type: 'BUILTIN', name: storedName, payload: configuration.toWellFormed() },
      secret: { type: 'BUILTIN', name: storedName, payload: secrets.toWellFormed() },
    } as const;
    try {
      const { channels, protocols, callUnary } = await loadGrpc();
      const channel = channels.get(serviceAddress(entry));
      const reply = await callUnary(channel, protocols.provisioner.Provision, request, { requestId }, settings);
      const { configurationUri, secretUri, properties } = reply;
      return { configurationUri, secretUri, properties };
    } catch (error) {
      // Without the text of the service or a cause, which may contain secrets.
      throw new ProvisioningError(`${describeService(entry)} ${describeFailure(error)}`);
    }
  };
}

function describeFailure(error: unknown): string {
  const code = statusCode(error);
  if (code === undefined) return 'could not be called';
  if (code === status.UNAVAILABLE) return 'is not available';
  if (code === status.DEADLINE_EXCEEDED) return 'did not answer in time; it may still have stored them';
  if (code === status.UNIMPLEMENTED)
    return 'does not support provisioning (tool.Provisioner/Provision is not implemented)';
  return `failed to provision: status ${statusName(code)}; see the log of the service`;
}
