import { type Client, status } from '@grpc/grpc-js';
import type { ServiceHealth } from '@sluice/contract';
import type { ServiceEntry } from '../registry/entries.ts';
import { quoted } from '../transport/upstream-error.ts';
import { type CallSettings, detailsOf, isStatusError, statusName, statusOf } from './grpc-call.ts';
import type { Protocols } from './protocols.ts';
import { serviceRequestId } from './request-id.ts';
import { callUnary } from './unary.ts';

/** What a probe found. `reason` says more where the service is not well. */
export interface Finding {
  readonly health: Exclude<ServiceHealth, 'pending'>;
  readonly reason?: string;
}

/** Statuses of calls that nobody answered. */
const UNANSWERED: ReadonlySet<status | undefined> = new Set([
  status.UNAVAILABLE,
  status.DEADLINE_EXCEEDED,
  status.CANCELLED,
  undefined,
]);

/** What a service is asked for by (decisions 4.10). */
export function probedId({ id, name }: ServiceEntry): string {
  return id ?? name;
}

/**
 * Asks a capability service once how it is (decisions 4.10): by `Probe`, and by `GetStatus` where it does not know that.
 * One that knows neither is healthy, since it has answered; one that fails otherwise has answered too, and is not. One that
 * does not answer is not asked again before the next probe: as long as it is, it holds up those of others. Never rejects.
 */
export async function probeHealth(
  client: Client,
  { healthProbe }: Protocols,
  entry: ServiceEntry,
  signal: AbortSignal,
  { timeoutMs }: Pick<CallSettings, 'timeoutMs'>,
): Promise<Finding> {
  const once = { timeoutMs, maxRetries: 0, retryDelayMs: 0 };
  const request = { id: probedId(entry).toWellFormed() };
  for (const method of [healthProbe.Probe, healthProbe.GetStatus]) {
    try {
      const call = { requestId: serviceRequestId(undefined), signal };
      const { status: found } = await callUnary(client, method, request, call, once);
      return found === 'STARTED' ? { health: 'healthy' } : { health: 'unhealthy', reason: `its status is ${found}` };
    } catch (error) {
      const code = statusOf(error);
      if (code !== status.UNIMPLEMENTED) {
        return { health: UNANSWERED.has(code) ? 'down' : 'unhealthy', reason: reasonOf(error) };
      }
    }
  }
  return { health: 'healthy' };
}

function reasonOf(error: unknown): string {
  if (isStatusError(error)) return `${statusName(error.code)}: ${quoted(detailsOf(error))}`;
  return error instanceof Error ? error.message : String(error);
}
