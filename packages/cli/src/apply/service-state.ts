import type { StateChange } from '@sluice/contract';
import type { components } from '@sluice/contract/client';
import { ApiError, type Client, unwrap } from '@sluice/contract/client';
import { isJsonObject } from '@sluice/protocol/json/parse';
import { counted } from '@sluice/protocol/text';
import { formatWarning } from '../evaluators/revisions.ts';
import { Failure } from '../failure.ts';
import { validated } from '../files/document.ts';
import type { DesiredState } from './state-file.ts';

/** A difference between the service and the state files. */
export type Change = StateChange;

/** A change that was made. */
export interface Applied extends Change {
  /** What came of it, one line each. */
  readonly result: readonly string[];
}

/** The desired state of a service. */
export class ServiceState {
  readonly #client: Client;
  readonly #desired: DesiredState;
  readonly #query: { readonly prune?: 'true'; readonly lock_out?: 'allow' };

  constructor(
    client: Client,
    desired: DesiredState,
    { prune = false, allowLockOut = false }: { readonly prune?: boolean; readonly allowLockOut?: boolean } = {},
  ) {
    this.#client = client;
    this.#desired = desired;
    this.#query = { ...(prune && { prune: 'true' }), ...(allowLockOut && { lock_out: 'allow' }) };
  }

  /** Returns the changes to be made; `etag` identifies them. Throws {@link Failure} with what cannot be applied. */
  async plan(): Promise<{ readonly changes: readonly Change[]; readonly etag: string }> {
    const { changes, etag } = await this.#put({ dry_run: 'true' });
    // Without it, other changes than those that were shown could be made.
    if (etag === '') throw new Failure('the response has no ETag: a proxy before the service must not remove it');
    return { changes, etag };
  }

  /** Makes exactly the planned changes. Undefined if others would be made by now, so that nothing was changed. */
  async apply(
    etag: string,
    { allowBroken = false }: { readonly allowBroken?: boolean } = {},
  ): Promise<readonly Applied[] | undefined> {
    try {
      const { changes, warnings } = await this.#put({ strict: allowBroken ? 'false' : 'true' }, etag);
      const evaluator = changes.find(({ kind, action }) => kind === 'evaluator' && action !== 'delete');
      const states = await this.#forwardStates(changes);
      return changes.map((change) => ({
        ...change,
        result: [
          ...(change === evaluator ? warnings.map(formatWarning) : []),
          ...(change.kind === 'forward' ? (states.get(change.name) ?? []) : []),
        ],
      }));
    } catch (error) {
      if (
        error instanceof ApiError &&
        error.code === 'CONFLICT' &&
        isJsonObject(error.details) &&
        'etag' in error.details
      )
        return undefined;
      throw error;
    }
  }

  async #put(query: { readonly dry_run?: 'true'; readonly strict?: 'true' | 'false' }, etag?: string) {
    const call = this.#client.PUT('/api/v1/state', {
      params: { query: { ...query, ...this.#query } },
      body: this.#desired.body,
      ...(etag !== undefined && { headers: { 'if-match': etag } }),
    });
    try {
      const { changes } = await validated(({ stateResult }) => stateResult, await unwrap(call), 'response');
      const { data, response } = await call;
      return { changes, etag: response.headers.get('etag') ?? '', warnings: data?.warnings ?? [] };
    } catch (error) {
      throw this.#located(error);
    }
  }

  /** Replaces paths of the request by positions in the files. */
  #located(error: unknown): unknown {
    // Evaluators have places in the list of the service.
    if (!(error instanceof ApiError) || !error.message.startsWith('invalid state') || !Array.isArray(error.details))
      return error;
    const problems = error.details.map(({ path, message }) => {
      const [section = '', index, ...rest] = String(path).split('.');
      const position = this.#desired.positionOf(`${section}.${index}`);
      const problem = [...(rest.length > 0 ? [rest.join('.')] : []), message].join(': ');
      return position === undefined ? problem : `${position}: ${section}: ${problem}`;
    });
    const [first = error.message, ...others] = problems;
    if (others.length === 0) return new Failure(first, { cause: error });
    return new Failure(counted(problems.length, 'problem'), { notes: problems, cause: error });
  }

  /** What came of the discoveries of registered and changed forwards, by name. */
  async #forwardStates(changes: readonly Change[]): Promise<ReadonlyMap<string, readonly string[]>> {
    if (!changes.some(({ kind, action }) => kind === 'forward' && action !== 'delete')) return new Map();
    const forwards = await unwrap(this.#client.GET('/api/v1/forwards'));
    return new Map(forwards.map((forward) => [forward.name, [describeState(forward)]]));
  }
}

/** Without the retry interval, which is outdated when the message is read. */
function describeState({ available, tools_discovered, statusMessage }: components['schemas']['Forward']): string {
  const reason = (statusMessage ?? 'not discovered yet').replace(/; retrying in [\d.]+ s/, '');
  if (!available) return `not available: ${reason}`;
  return [counted(tools_discovered, 'tool'), ...(statusMessage === undefined ? [] : [statusMessage])].join('; ');
}
