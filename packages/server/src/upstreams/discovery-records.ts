import { type ClientCapabilities, capabilityKey } from '@sluice/protocol/mcp/capabilities';
import { z } from 'zod';
import type { SharedLog } from '../registry/store/postgres/shared-log.ts';
import { SharedRecords } from '../registry/store/postgres/shared-records.ts';
import type { RecordedPut } from '../registry/store/store.ts';
import type { ForwardHealth } from './forward-connection.ts';

/** JSON texts that replicas share, each stored in the background: without the database it stays local, as discoveries do. */
class DiscoveryRecords extends SharedRecords<string> {
  constructor(log: SharedLog, section: string) {
    super(log, section, (json) => json);
  }

  protected share(id: string, json: string): void {
    if (this.records.get(id) === json) return;
    const [section = ''] = this.sections;
    const put: RecordedPut = { op: 'put', section, id, json };
    this.log.commit({ changes: [put], publish: () => void this.records.set(id, json) }).catch(() => undefined);
  }
}

const stateSchema = z.object({
  kind: z.enum(['up', 'down']),
  message: z.string().optional(),
});

/** What the replicas that discover forwards have found, by the name of the forward. */
export class SharedStates extends DiscoveryRecords {
  constructor(log: SharedLog) {
    super(log, 'forward_states');
  }

  of(forward: string): ForwardHealth {
    const json = this.records.get(forward);
    const state = json === undefined ? undefined : stateSchema.safeParse(JSON.parse(json)).data;
    if (!state) return { kind: 'pending' };
    return state.kind === 'up'
      ? { kind: 'up', message: state.message }
      : { kind: 'down', message: state.message ?? '' };
  }

  /** Shares the state of a forward that this replica discovers. */
  publish(forward: string, state: { readonly kind: 'up' | 'down'; readonly message: string | undefined }): void {
    this.share(forward, JSON.stringify(state));
  }
}

/** Record among the capabilities: there are clients of the legacy era. */
const LEGACY_CLIENTS = 'legacy';

/** What clients of any replica have declared: all replicas discover their forwards with it. */
export class SharedCapabilities extends DiscoveryRecords {
  constructor(log: SharedLog) {
    super(log, 'client_capabilities');
  }

  /** Calls back for what clients of other replicas declare from now on; undefined: there are clients of the legacy era. */
  watch(onDeclared: (capabilities: ClientCapabilities | undefined) => void): void {
    this.changed.subscribe(({ id, content }) => {
      if (content !== undefined) onDeclared(id === LEGACY_CLIENTS ? undefined : JSON.parse(content));
    });
  }

  /** Reports the stored ones. */
  start(): void {
    for (const [id, content] of this.records) this.changed.emit({ id, content });
  }

  declare(capabilities: ClientCapabilities): void {
    this.share(capabilityKey(capabilities), JSON.stringify(capabilities));
  }

  declareLegacyClients(): void {
    this.share(LEGACY_CLIENTS, '{}');
  }
}
