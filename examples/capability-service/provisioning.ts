import { randomUUID } from 'node:crypto';
import type { handleUnaryCall } from '@grpc/grpc-js';
import type { ProvisionReply, ProvisionRequest } from './messages.ts';

/** Stores provisioned secrets in memory. Use a vault in production. */
export class SecretStore {
  readonly #secrets = new Map<string, string>();

  /** Stores the secret and returns the `secretsURI` for tools. */
  readonly provision: handleUnaryCall<ProvisionRequest, ProvisionReply> = ({ request }, callback) => {
    const { payload = '' } = request.secret ?? {};
    // Unguessable, and contains nothing of the secret, because Sluice shows it to operators.
    const uri = payload === '' ? '' : `memory://${randomUUID()}`;
    if (uri !== '') this.#secrets.set(uri, payload);
    const description = 'Value of the Authorization header that http-get sends, such as Bearer …';
    callback(null, {
      // A service with configuration stores `request.configuration` in the same way.
      configurationUri: '',
      secretUri: uri,
      properties: { authorization: { type: 'string', description, required: false } },
    });
  };

  /** Returns the secret of a tool; undefined for an empty URI. Throws for an unknown one. */
  secret(uri: string): string | undefined {
    if (uri === '') return undefined;
    const secret = this.#secrets.get(uri);
    if (secret === undefined) throw new Error(`unknown secret ${uri}: provision it again`);
    return secret;
  }
}
