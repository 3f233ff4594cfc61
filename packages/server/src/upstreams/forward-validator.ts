import type { ErrorCode } from '@sluice/contract';
import { comparableName } from '../http/header-lines.ts';
import type { Secrets } from '../http/secrets/secrets.ts';
import type { Identity } from '../identity/identity.ts';
import type { ForwardChecks } from '../registry/desired-forwards.ts';
import type { Forward } from '../registry/entries.ts';
import { OperationError } from '../registry/operation-error.ts';
import type { ForwardKinds } from './kinds.ts';
import type { ForwardTarget } from './upstream-kind.ts';

/** Problem of a header that is never sent. */
const NAMES_CALLER = 'names who calls and is never sent; remove the header';

/** Checks of forwards that are registered, changed or tested. */
export class ForwardValidator implements ForwardChecks {
  readonly #kinds: ForwardKinds;
  readonly #secrets: Secrets;
  readonly #identity: Pick<Identity, 'droppedHeaders'> | undefined;

  constructor(kinds: ForwardKinds, secrets: Secrets, identity?: Pick<Identity, 'droppedHeaders'>) {
    this.#kinds = kinds;
    this.#secrets = secrets;
    this.#identity = identity;
  }

  /**
   * Throws {@link OperationError} if the address of a forward is invalid, if one of its headers says who calls, or if secrets in them
   * must not be sent there. What was usable may have become unusable: with the state `before` a change, only what the change sends
   * elsewhere is rejected.
   */
  requireUsable(forward: ForwardTarget, before?: Forward): void {
    const reject = (path: string, message: string, code: ErrorCode = 'BAD_REQUEST') =>
      new OperationError(code, `invalid forward: ${path} ${message}`, [{ path, message }]);
    const problem = this.#kinds.problem(forward.address);
    if (problem !== undefined) throw reject('address', problem);
    if (before && this.#kinds.connectionKey(before) === this.#kinds.connectionKey(forward)) return;
    const origins = this.#kinds.of(forward).origins(forward);
    for (const [name, value] of Object.entries(forward.headers ?? {})) {
      if (this.#identity?.droppedHeaders.has(comparableName(name)))
        throw reject(`headers.${name}`, NAMES_CALLER, 'UNPROCESSABLE');
      const [unusable] = origins.flatMap((origin) => this.#secrets.problem(value, origin) ?? []);
      if (unusable !== undefined) throw reject(`headers.${name}`, unusable);
    }
  }

  /** Throws {@link OperationError} if a change would send the headers of a forward to another host: they do not move by themselves. */
  requireSameOrigin(before: Forward, after: Forward): void {
    const names = Object.keys(before.headers ?? {});
    const [origin] = this.#kinds.of(before).origins(before);
    if (names.length === 0 || origin === this.#kinds.of(after).origins(after)[0]) return;
    const remedy = `send headers with it, to confirm or change ${names.join(', ')}`;
    throw new OperationError('BAD_REQUEST', `the new address of forward ${after.name} has another origin: ${remedy}`);
  }
}
