import { type Era, METHOD_NOT_FOUND } from '@sluice/protocol/mcp/constants';
import { UpstreamError } from '../../http/client/errors.ts';
import { type LegacyClient, openLegacy, openModern, type RpcClientOptions } from './rpc-client.ts';

/**
 * Health checks of one upstream, each of one light request: `server/discover` in the modern era, `ping` in the
 * legacy one, in a session that is kept for it. An error in response to `ping` is healthy too.
 */
export class HealthCheck {
  readonly #options: RpcClientOptions;
  readonly #onSessionLost: () => void;
  #session: LegacyClient | undefined = undefined;

  /** `onSessionLost` is called when the upstream has discarded the session, as after a restart. */
  constructor(options: RpcClientOptions, onSessionLost = () => {}) {
    this.#options = options;
    this.#onSessionLost = onSessionLost;
  }

  /** Rejects with an {@link UpstreamError} if there is no response or the upstream no longer speaks the era. */
  async run(era: Era): Promise<void> {
    if (era === 'modern') {
      void this.close();
      await openModern(this.#options);
      return;
    }
    const previous = this.#session;
    if (previous && (await works(previous))) return;
    void this.close();
    const session = await openLegacy(this.#options);
    this.#session = session;
    await session.request('ping');
    if (previous) this.#onSessionLost();
  }

  /** Closes the session; the next check opens one. Never rejects. */
  async close(): Promise<void> {
    const session = this.#session;
    this.#session = undefined;
    await session?.close();
  }
}

/** Sends a ping; false if the upstream may have discarded the session, as after a restart: a new one shows whether it works. */
async function works(session: LegacyClient): Promise<boolean> {
  try {
    const reply = await session.request('ping');
    if (reply.kind === 'result' || reply.code === METHOD_NOT_FOUND) return true;
    return !reply.isSessionLost && !(await session.isLost());
  } catch (error) {
    if (error instanceof UpstreamError && (error.kind === 'session-lost' || error.kind === 'http')) return false;
    throw error;
  }
}
