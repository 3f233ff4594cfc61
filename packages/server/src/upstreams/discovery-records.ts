import { isJsonObject } from '@sluice/protocol/json/parse';
import { type ClientCapabilities, capabilityKey } from '@sluice/protocol/mcp/capabilities';
import { z } from 'zod';
import { Collection } from '../registry/store/collection.ts';
import type { ForwardHealth } from './forward-connection.ts';

const PENDING: ForwardHealth = { kind: 'pending' };

const health: z.ZodType<ForwardHealth> = z
  .object({ kind: z.enum(['up', 'down']), message: z.string().optional() })
  .transform(({ kind, message }) => (kind === 'up' ? { kind, message } : { kind, message: message ?? '' }))
  .or(z.unknown().transform(() => PENDING));

/**
 * What the replicas that discover forwards have found, by the name of the forward. Changes are stored in the background: without
 * the database they stay local, as discoveries do.
 */
export class SharedStates extends Collection<ForwardHealth> {
  constructor() {
    super({ name: 'forward_states', schema: health });
  }

  of(forward: string): ForwardHealth {
    return this.get(forward) ?? PENDING;
  }

  /** Shares the state of a forward that this replica discovers. */
  publish(forward: string, state: ForwardHealth): void {
    const text = JSON.stringify(state);
    this.update(forward, (before) => (JSON.stringify(before) === text ? undefined : state)).catch(() => undefined);
  }
}

/** Record among the capabilities: there are clients of the legacy era. */
const LEGACY_CLIENTS = 'legacy';

/** What clients of any replica have declared: all replicas discover their forwards with it. Stored as {@link SharedStates}. */
export class SharedCapabilities extends Collection<ClientCapabilities> {
  constructor() {
    super({ name: 'client_capabilities', schema: z.custom<ClientCapabilities>(isJsonObject) });
  }

  /** Calls back for what clients of other replicas declare from now on; undefined: there are clients of the legacy era. */
  watch(onDeclared: (capabilities: ClientCapabilities | undefined) => void): void {
    this.changed.subscribe(({ id, content, isForeign }) => {
      if (isForeign && content) onDeclared(id === LEGACY_CLIENTS ? undefined : content);
    });
  }

  /** Reports the stored ones. */
  start(): void {
    for (const [id, content] of this.entries()) this.changed.emit({ id, before: undefined, content, isForeign: true });
  }

  declare(capabilities: ClientCapabilities): void {
    this.#share(capabilityKey(capabilities), capabilities);
  }

  declareLegacyClients(): void {
    this.#share(LEGACY_CLIENTS, {});
  }

  #share(id: string, capabilities: ClientCapabilities): void {
    if (!this.get(id)) this.update(id, (before) => (before ? undefined : capabilities)).catch(() => undefined);
  }
}
