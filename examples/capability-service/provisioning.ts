import { randomUUID } from 'node:crypto';
import type { handleUnaryCall } from '@grpc/grpc-js';
import type { ProvisionReply, ProvisionRequest } from './messages.ts';

/** The secrets that operators have handed over, until the service ends. A real one keeps them in a vault. */
export class Provisioned {
  readonly #secrets = new Map<string, string>();

  /** Keeps the secret, and answers what a tool has to name as its `secretsURI` to be carried out with it. */
  readonly provision: handleUnaryCall<ProvisionRequest, ProvisionReply> = ({ request }, callback) => {
    const { payload = '' } = request.secret ?? {};
    // Nobody guesses it; Sluice shows it to operators, so it says nothing by itself.
    const uri = payload === '' ? '' : `memory://${randomUUID()}`;
    if (uri !== '') this.#secrets.set(uri, payload);
    const description = 'The whole secret: what http-get sends as Authorization, such as Bearer …';
    callback(null, {
      // A service with settings of its own keeps `request.configuration` in the same way.
      configurationUri: '',
      secretUri: uri,
      properties: { authorization: { type: 'string', description, required: false } },
    });
  };

  /** The secret of a tool; undefined when it has none. Throws for one that is not here (any more). */
  secret(uri: string): string | undefined {
    if (uri === '') return undefined;
    const secret = this.#secrets.get(uri);
    if (secret === undefined) throw new Error(`the secret ${uri} is not here any more: provision it again`);
    return secret;
  }
}
