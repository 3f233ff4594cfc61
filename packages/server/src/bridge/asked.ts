import type { Entry } from '../registry/entries.ts';
import type { Asked } from '../telemetry/requests/outgoing-call.ts';

/** What is asked of a service, for metrics and traces. */
export function asked({ path }: { readonly path: string }, { kind, name }: Entry, server: string): Asked {
  const subject = kind === 'tool' ? { kind, name } : undefined;
  return { method: path.slice(1), protocol: 'grpc', subject, server };
}
